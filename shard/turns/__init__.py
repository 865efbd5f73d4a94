"""Turns from and to other processes, and the state that all parts of a shard work on."""
