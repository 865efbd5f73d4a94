"""Reasons not to read a connection: bits of `Connection.pauses`. It is read when there is none."""

from __future__ import annotations

LOGIN = 1
"""The login of its client is being decided."""
HELD = 2
"""More is parked for it than its budget (`acceptor.holding.parking`); a drip is read all the same."""
OUTPUT = 4
"""Its client does not read the answers to its requests (`acceptor.budgets.outputs`)."""
BODIES = 8
"""Its user has more bytes of unfinished bodies than it may (`acceptor.budgets.unfinished`)."""
