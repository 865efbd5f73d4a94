"""Transactions (class tx), on one shard and over several."""
