"""Other people's integration suites, fetched when they are run, against a running node."""
