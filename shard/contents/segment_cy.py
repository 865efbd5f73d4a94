# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What a queue consists of, and what is taken off it: rows of batches, numbered."""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.octets import address_of_bytearray

    MESSAGE_WEIGHT = 64
    SEGMENT_WEIGHT = 1100
    ENTRY_SIZE = 16


class Source:
    """One life of an acceptor, as what it publishes knows it: the last report that it has `heard`, and what has `left`
    its queues that it may withhold confirms of: [(queue's owner, Origin, first row, count)]. None: it is gone.
    """

    def __init__(self) -> None:
        self.heard = 0
        self.left: list[Any] | None = []


class Origin:
    """The PUBLISH that messages came with: that of an index in a turn of an acceptor."""

    def __init__(self, source: Source, turn: int, index: int) -> None:
        self.source = source
        self.turn = turn
        self.index = index


class Segment:
    """Messages of one batch that entered a queue together, the first with the given sequence number.

    `live` counts those not settled yet, `live_whole` what they count whole (`Batch.whole`), of `whole` of all, whose
    bodies have `body_bytes`; when nothing is live the segment lets go of its batch (`batch` is None). All expire at
    `expiry`, or each at its own of `expiries` (8 octets a message) if that is not None.

    A `stored` segment is in the store, or will be with the next commit, until `kept` is 0: it counts the messages that
    the store is still to know. `done` has a bit for each that it is not (None: there is none),
    `unwanted` one for each that was rejected, be it buried by now or not. `octets` is how many the
    store has of it (0: it has not been written yet), `mixed` whether some of those messages are not persistent. What
    only the store has at hand has no batch either. `again` says that an earlier life of the shard may have delivered
    some, who knows under which number. What is `damaged` in the store is to be had from nowhere.

    Where somebody may wait for its messages to leave they came with the rows of `origin` from `row` on, or each of
    its `pieces` did: (first message in the segment, count, origin, row). Of small ones that were made one on their way
    to the store that is not known.
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
        self.whole = 0
        self.live_whole = 0
        self.stored = False
        self.kept = count
        self.done: bytearray | None = None
        self.octets = 0
        self.mixed = False
        self.spilled = False
        self.again = False
        self.damaged = False
        self.unwanted: bytearray | None = None
        self.origin: Any = None
        self.row = 0
        self.pieces: list[tuple[int, int, Origin, int]] | None = None

    def came_from(self, offset: int, count: int) -> list[tuple[int, int, Origin, int]]:
        """Where some of its messages came from, as `pieces`, as far as that is known."""
        if self.origin is not None:
            return [(offset, count, self.origin, self.row + offset)]
        found = []
        for start, size, origin, row in self.pieces or ():
            low = max(start, offset)
            high = min(start + size, offset + count)
            if low < high:
                found.append((low, high - low, origin, row + low - start))
        return found

    def weight(self) -> int:
        """What it counts in memory with its contents: those of messages that are not settled."""
        return self.live_whole + SEGMENT_WEIGHT

    def hold(self, body_bytes: int, whole: int) -> int:
        """Messages that count so much, none of which is settled."""
        self.body_bytes = body_bytes
        self.whole = whole
        self.live_whole = whole
        return 0

    def go_out(self) -> int:
        """Its contents leave memory, and what is kept of each piece."""
        self.batch = None
        self.pieces = None
        return 0

    def stored_whole(self) -> None:
        """It was read from a store, whole: `octets` are of its rows and contents."""
        self.whole = self.octets + (MESSAGE_WEIGHT - ENTRY_SIZE) * self.count

    def joins(self, other: Segment) -> bool:
        """Whether it can be one with the next, the store having both, or neither."""
        return (
            self.sequence + self.count == other.sequence
            and self.live == self.count
            and self.batch is not None
            and self.stored == other.stored
            and not self.spilled
            and self.expiries is None
            and other.expiries is None
            and self.expiry == other.expiry
            and self.again == other.again
        )

    def finish(self, offset: int, count: int) -> bool:
        """The store need not know some messages any more; whether that goes for all."""
        self.kept -= count
        if self.kept == 0:
            return True
        self.done = with_bits(self.done, self.count, offset, count)
        return False

    def reject(self, offset: int, count: int) -> None:
        """Some messages, which the store still has to know, wait to be buried."""
        self.unwanted = with_bits(self.unwanted, self.count, offset, count)

    def undone(self) -> list[tuple[int, int]]:
        """(offset, count) of the runs of messages that the store still has to know."""
        return runs_of(self.count, None, self.done, None)

    def wanted(self) -> list[tuple[int, int]]:
        """Those of them that do not wait to be buried."""
        return runs_of(self.count, None, self.done, self.unwanted)

    def rejected(self) -> list[tuple[int, int]]:
        """Those of them that do."""
        return [] if self.unwanted is None else runs_of(self.count, self.unwanted, self.done, None)


def with_bits(bits: bytearray | None, size: int, first: int, count: int) -> bytearray:
    """So many bits, with some of them set, first the lowest of the first octet."""
    if bits is None:
        bits = bytearray((size + 7) >> 3)
    p = address_of_bytearray(bits)
    for i in range(first, first + count):
        p[i >> 3] = p[i >> 3] | (1 << (i & 7))
    return bits


def runs_of(
    size: int, having: bytearray | None, lacking: bytearray | None, nor: bytearray | None
) -> list[tuple[int, int]]:
    """(start, count) of the runs of bits that are set in the first, and in neither of the others, as far as given."""
    if having is None and lacking is None and nor is None:
        return [(0, size)]
    runs = []
    start = 0
    for i in range(size + 1):
        if (
            i == size
            or (having is not None and not having[i >> 3] >> (i & 7) & 1)
            or (lacking is not None and lacking[i >> 3] >> (i & 7) & 1)
            or (nor is not None and nor[i >> 3] >> (i & 7) & 1)
        ):
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
        self.whole = batch.whole(first, count)
        self.segment = segment
