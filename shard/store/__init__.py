"""The store: gathering, writing, checking, reading and upgrading its records on disk."""
