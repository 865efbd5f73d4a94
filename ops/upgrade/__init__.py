"""Upgrading a node while it serves: its processes are replaced by those of the installed release."""
