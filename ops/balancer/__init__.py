"""Automatic rebalancing: decides when the node makes a plan by itself, and applies it."""
