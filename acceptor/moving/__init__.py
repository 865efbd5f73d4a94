"""Queues that move, shards that die, and requests to shards that outlive both."""
