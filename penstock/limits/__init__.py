"""Limits and features of a queue, from its declaration, policies and settings."""
