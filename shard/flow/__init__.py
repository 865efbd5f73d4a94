"""Which queues hold their producers: decided, announced, recorded."""
