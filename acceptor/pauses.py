"""Reasons not to read a connection: bits of `Connection.pauses`. It is read when there is none."""

from __future__ import annotations

LOGIN = 1
"""Its login is being decided on."""
HELD = 2
"""More is parked for it than its budget (`acceptor.throttle`); a drip is read all the same."""
OUTPUT = 4
"""Its client does not take the answers to what it has sent (`acceptor.outputs`)."""
BODIES = 8
"""Bodies that it has begun are more than its user may have unfinished (`acceptor.unfinished`)."""
