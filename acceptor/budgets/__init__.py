"""Budgets for what clients make an acceptor keep: memory by user, parked publishes, unread output, connections."""
