"""The link to each shard: the turn being written, unacked deliveries, and everything that is not safe there yet."""
