"""Relays: messages of a queue are published elsewhere, and acked once that is confirmed."""
