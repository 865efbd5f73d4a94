"""Who decides on requests, and what follows from a decision: the ledger and those who write in it."""
