"""`penstock shard`: the shards of a running node."""
