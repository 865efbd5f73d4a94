"""Transactions in one shard and over several."""
