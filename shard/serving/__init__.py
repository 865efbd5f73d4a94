"""The queue work of a turn: enqueue, deliver, page, and share out room."""
