"""Parts of transactions, in one shard and over several."""
