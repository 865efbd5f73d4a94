"""Deliveries and replies to consumers, and the settlements that come back."""
