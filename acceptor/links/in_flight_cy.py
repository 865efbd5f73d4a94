# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Messages in flight to a shard, weighted (`acceptor.links.weights`), and the bound of their weight."""

from __future__ import annotations

import cython

if not cython.compiled:
    C_WHOLE = 4


class Load:
    """Messages and bytes, and their weights: in quarters of a message and of a byte."""

    def __init__(self) -> None:
        self.count = 0
        self.nbytes = 0
        self.count_weight = 0
        self.bytes_weight = 0

    def add(self, count: int, nbytes: int, count_weight: int, bytes_weight: int) -> None:
        """Add messages, bytes and their weights."""
        self.count += count
        self.nbytes += nbytes
        self.count_weight += count_weight
        self.bytes_weight += bytes_weight

    def join(self, other: Load) -> None:
        """Add another load."""
        self.add(other.count, other.nbytes, other.count_weight, other.bytes_weight)

    def leave(self, other: Load) -> None:
        """Subtract another load."""
        self.add(-other.count, -other.nbytes, -other.count_weight, -other.bytes_weight)

    def mostly_passes(self) -> bool:
        """Whether more than two thirds of the bytes weigh a quarter."""
        return 2 * self.nbytes > self.bytes_weight


class InFlight:
    """All that is in flight from one acceptor to one shard, with the turn being written, and its bound.

    The next messages are expected to weigh as much as those in flight do on average; if none are, as much as the last
    ones.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.load = Load()
        self.last = self.last_bytes = C_WHOLE

    def room(self) -> tuple[int, int]:
        """Return the (messages, bytes) that may still leave; both are 0 where one of the bounds is reached."""
        load = self.load
        count = C_WHOLE * self.max_count - load.count_weight
        nbytes = C_WHOLE * self.max_bytes - load.bytes_weight
        if count <= 0 or nbytes <= 0:
            return 0, 0
        return (
            count * load.count // load.count_weight if load.count else count // self.last,
            nbytes * load.nbytes // load.bytes_weight if load.nbytes else nbytes // self.last_bytes,
        )

    def is_empty(self) -> bool:
        return self.load.count == 0

    def add(self, turn: Load, count: int, nbytes: int, weight: int, byte_weight: int) -> None:
        """Add messages and bytes, of these weights each, to the turn being written, whose load is `turn`."""
        self.last = weight
        self.last_bytes = byte_weight
        turn.add(count, nbytes, count * weight, nbytes * byte_weight)
        self.load.add(count, nbytes, count * weight, nbytes * byte_weight)

    def forget(self) -> None:
        """Record that nothing is in flight."""
        self.load = Load()
