"""Queues on their way from one shard to another."""
