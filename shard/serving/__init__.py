"""What a turn does with queues: take in, hand out, page, share out room."""
