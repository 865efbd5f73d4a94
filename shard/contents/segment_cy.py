# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The parts of a queue, and ranges popped from it: numbered rows of batches."""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.pointers import address_of_bytearray

    MESSAGE_WEIGHT = 64
    SEGMENT_WEIGHT = 1100
    ENTRY_SIZE = 16


class Source:
    """One incarnation of an acceptor, as its messages refer to it: the last report that it has received
    (`last_report`), and the departures whose confirms it may withhold (`left`): [(queue's owner, Origin, first row,
    count)]; None once it is gone.
    """

    def __init__(self) -> None:
        self.last_report = 0
        self.left: list[Any] | None = []


class Origin:
    """The Publish of messages: its index in a turn of an acceptor."""

    def __init__(self, source: Source, turn: int, index: int) -> None:
        self.source = source
        self.turn = turn
        self.index = index


class Segment:
    """Messages of one batch that entered a queue together, the first with the given sequence number.

    `live` is the number of messages not settled yet, `live_whole` their whole bytes (`Batch.whole`), `whole` those of
    all, whose bodies have `body_bytes`; when nothing is live the segment drops its batch (`batch` is None). All expire
    at `expiry`, or each at its own of `expiries` (8 bytes a message) if that is not None.

    A `stored` segment is in the store, or will be with the next commit, until `kept` is 0: `kept` is the number of
    messages that the store must still know. `done` has a bit for each that it need not (None: no such message),
    `unwanted` one for each that was rejected, buried or not. `nbytes` is the size that the store has of it (0: not
    written yet), `mixed` whether some of those messages are not persistent. Without a batch, the contents are only in
    the store. `again` says that an earlier incarnation of the shard may have delivered some, under unknown numbers. The
    contents of a `damaged` segment cannot be read anywhere.

    If a publisher may need to know when its messages leave, they have the rows of `origin` from `row` on, or each of
    the `pieces` has its own: (first message in the segment, count, origin, row). Segments merged on their way to the
    store have neither.
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
        self.nbytes = 0
        self.mixed = False
        self.spilled = False
        self.again = False
        self.damaged = False
        self.unwanted: bytearray | None = None
        self.origin: Any = None
        self.row = 0
        self.pieces: list[tuple[int, int, Origin, int]] | None = None

    def came_from(self, offset: int, count: int) -> list[tuple[int, int, Origin, int]]:
        """The origins of some messages, like `pieces`, as far as they are known."""
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
        """The memory that it takes with its contents, those of messages that are not settled."""
        return self.live_whole + SEGMENT_WEIGHT

    def hold(self, body_bytes: int, whole: int) -> int:
        """Set the sizes of its messages, none of which is settled."""
        self.body_bytes = body_bytes
        self.whole = whole
        self.live_whole = whole
        return 0

    def go_out(self) -> int:
        """Drop its contents and pieces from memory."""
        self.batch = None
        self.pieces = None
        return 0

    def stored_whole(self) -> None:
        """Set `whole` after reading all of it from a store: `nbytes` are of its rows and contents."""
        self.whole = self.nbytes + (MESSAGE_WEIGHT - ENTRY_SIZE) * self.count

    def joins(self, other: Segment) -> bool:
        """Whether it can be merged with the next segment, if the store has both or neither."""
        return (
            self.sequence + self.count == other.sequence
            and self.live == self.count
            and self.batch is not None
            and self.stored == other.stored
            and not self.spilled
            and (self.expiries is None) == (other.expiries is None)
            and (self.expiries is not None or self.expiry == other.expiry)
            and self.again == other.again
        )

    def finish(self, offset: int, count: int) -> bool:
        """The store need not know some messages any more; return whether that holds for all."""
        self.kept -= count
        if self.kept == 0:
            return True
        self.done = with_bits(self.done, self.count, offset, count)
        return False

    def reject(self, offset: int, count: int) -> None:
        """Mark messages that the store must know as rejected, to be buried."""
        self.unwanted = with_bits(self.unwanted, self.count, offset, count)

    def undone(self) -> list[tuple[int, int]]:
        """(offset, count) of the runs of messages that the store must know."""
        return runs_of(self.count, None, self.done, None)

    def wanted(self) -> list[tuple[int, int]]:
        """The runs of `undone` that were not rejected."""
        return runs_of(self.count, None, self.done, self.unwanted)

    def rejected(self) -> list[tuple[int, int]]:
        """The runs of `undone` that were rejected."""
        return [] if self.unwanted is None else runs_of(self.count, self.unwanted, self.done, None)


def with_bits(bits: bytearray | None, size: int, first: int, count: int) -> bytearray:
    """`size` bits with some of them set, beginning with the lowest bit of the first byte."""
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
    """Messages popped from a queue: `count` rows of a batch from row `first`, numbered from `sequence`.

    `segment` is the segment they come from if the store must still learn that they are settled.
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
