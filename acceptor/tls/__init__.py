"""TLS between a client's socket and its connection."""
