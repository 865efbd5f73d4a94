"""How many octets are read from a client's socket at once.

What one read brings is taken in before another connection's is, so it must not bring too much work. Octets say little
of that: a run of thousands of publishes is one event, thousands of methods are as many. So a read that brings more than
`MANY_EVENTS` halves the next one, and each that brings no more doubles it again, up to what is good for throughput.
"""

from __future__ import annotations

READ_OCTETS = 256 * 1024
# Of large bodies, of which none waits.
LARGE_READ_OCTETS = 512 * 1024
LEAST_READ_OCTETS = 8 * 1024
MANY_EVENTS = 256


class ReadSize:
    """The size of the next read, in octets; that of large bodies aside."""

    __slots__ = ("octets",)

    def __init__(self) -> None:
        self.octets = READ_OCTETS

    def follow(self, events: int) -> None:
        """A read has brought so many events. Called where there were many, or this is not the largest size."""
        if events > MANY_EVENTS:
            self.octets = max(self.octets // 2, LEAST_READ_OCTETS)
        else:
            self.octets = min(self.octets * 2, READ_OCTETS)
