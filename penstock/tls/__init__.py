"""TLS of listeners: certificates and contexts, for the processes that serve and for commands."""
