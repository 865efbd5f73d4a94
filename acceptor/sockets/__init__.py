"""Clients' sockets, between the loop and the connections."""
