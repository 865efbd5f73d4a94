"""The users of a simulated node beside guest; all have the same password."""

EVE = "eve"
"""Attacks memory."""
MALLORY = "mallory"
"""Binds queues to exchanges that it may not write to, so that they are unprivileged."""
NOWHERE, ANYWHERE = "^$", ".*"
"""The exchanges that Mallory may write to."""
