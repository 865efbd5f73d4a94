"""Queues that move from one shard to another."""
