"""Decisions on requests and their consequences: the ledger and the modules that write to it."""
