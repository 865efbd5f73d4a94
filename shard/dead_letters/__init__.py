"""What left its queue unwanted is published again."""
