"""How many bytes are read from a client's socket at once.

A read is processed before the next connection is read, so it must not bring too much work. Bytes say little about that:
a run of thousands of publishes is one event, thousands of methods are as many. So a read that brings more than
`MANY_EVENTS` halves the next one, and each that brings no more doubles it again, up to the size best for throughput.
"""

from __future__ import annotations

READ_BYTES = 256 * 1024
# For large bodies, while nothing is parked.
LARGE_READ_BYTES = 512 * 1024
LEAST_READ_BYTES = 8 * 1024
MANY_EVENTS = 256


class ReadSize:
    """The size of the next read, in bytes; large bodies have their own."""

    __slots__ = ("nbytes",)

    def __init__(self) -> None:
        self.nbytes = READ_BYTES

    def adapt(self, events: int) -> None:
        """Adapt to the number of events in a read. Called after many events, or below the largest size."""
        if events > MANY_EVENTS:
            self.nbytes = max(self.nbytes // 2, LEAST_READ_BYTES)
        else:
            self.nbytes = min(self.nbytes * 2, READ_BYTES)
