"""Rebalancing: plans which queues move to which shards, and applies these plans."""
