"""What comes from other processes and goes to them, turn by turn, and what all parts of a shard work on."""
