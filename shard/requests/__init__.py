"""What acceptors ask for: of queues, and of consumers."""
