"""Requests of acceptors about queues and consumers."""
