"""The publishes of a channel, from the scanner to the turns of shards."""
