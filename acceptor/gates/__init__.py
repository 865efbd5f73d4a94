"""What a publish must pass: queues with limits, shared limits, rates, stops; who waits there, and whose turn it is."""
