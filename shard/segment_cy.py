# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What a queue consists of, and what is taken off it: rows of batches, numbered."""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch_cy import Batch
    from penstock.octets import address_of_bytearray

    MESSAGE_WEIGHT = 64


class Segment:
    """Messages of one batch that entered a queue together, the first with the given sequence number.

    `live` counts those not settled yet; at 0 the segment lets go of its batch (`batch` is None). All expire at
    `expiry`, or each at its own of `expiries` (8 octets a message) if that is not None.

    A `stored` segment is in the store, or will be with the next commit, until `kept` is 0: it counts the messages that
    the store is still to know. `done` has a bit for each that it is not (None: there is none). `octets` is how many the
    store has of it (0: it has not been written yet), `mixed` whether some of those messages are not persistent. What
    only the store has at hand has no batch either.
    """

    def __init__(self, batch: Batch | None, first: int, count: int, sequence: int) -> None:
        self.batch: Any = batch
        self.first = first
        self.count = count
        self.sequence = sequence
        self.live = count
        self.expiry = 1 << 62
        self.expiries: bytearray | None = None
        self.body_bytes = 0
        self.stored = False
        self.kept = count
        self.done: bytearray | None = None
        self.octets = 0
        self.mixed = False
        self.spilled = False

    def weight(self) -> int:
        """What its contents count in memory."""
        return self.body_bytes + MESSAGE_WEIGHT * self.count

    def joins(self, other: Segment) -> bool:
        """Whether it can be one with the next, both being in memory only."""
        return (
            self.sequence + self.count == other.sequence
            and self.live == self.count
            and self.batch is not None
            and not self.stored
            and self.expiries is None
            and other.expiries is None
            and self.expiry == other.expiry
        )

    def finish(self, offset: int, count: int) -> bool:
        """The store need not know some messages any more; whether that goes for all."""
        self.kept -= count
        if self.kept == 0:
            return True
        if self.done is None:
            self.done = bytearray((self.count + 7) >> 3)
        p = address_of_bytearray(self.done)
        for i in range(offset, offset + count):
            p[i >> 3] = p[i >> 3] | (1 << (i & 7))
        return False

    def undone(self) -> list[tuple[int, int]]:
        """(offset, count) of the runs of messages that the store still has to know."""
        if self.done is None:
            return [(0, self.count)]
        runs = []
        p = address_of_bytearray(self.done)
        start = 0
        for i in range(self.count + 1):
            if i == self.count or p[i >> 3] >> (i & 7) & 1:
                if start < i:
                    runs.append((start, i - start))
                start = i + 1
        return runs


class Range:
    """Messages taken off a queue: `count` rows of a batch from row `first`, numbered from `sequence`.

    `segment` is where they come from if the store is still to hear that they are done with.
    """

    def __init__(
        self, batch: Batch, first: int, count: int, sequence: int, redelivered: bool, body_bytes: int,
        segment: Any = None,
    ) -> None:  # fmt: skip
        self.batch = batch
        self.first = first
        self.count = count
        self.sequence = sequence
        self.redelivered = redelivered
        self.body_bytes = body_bytes
        self.segment = segment
