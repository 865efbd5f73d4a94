"""What a client may make the acceptor keep: memory by user, parked publishes, unread output, counts of connections."""
