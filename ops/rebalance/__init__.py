"""Rebalancing: which queues are to move to which shards, and having them moved."""
