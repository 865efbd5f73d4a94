"""Storage of messages in transit: rows of a batch, large contents in an arena."""
