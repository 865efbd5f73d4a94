"""The copy of a queue on its way to another shard: one file in the old home's directory, removed when the move is over.

    piece     sequence of the first message (8), count (4), again (1), expiry (8), sizes in bytes of expiries (4),
              of rows (4), of contents (8); then these three: 8 bytes a message or none, rows and contents of a batch
    end       a piece of no messages
    facts     size (4), then msgpack: `Facts`

Numbers are little-endian. A piece has consecutive messages; those of one priority are in order. The file promises
nothing: until its messages are in the store of the new home, they are in the old home as well.

The file is written in rounds. All but the last are of an open queue (pre-copy, as virtual machines are moved: Clark et
al., Live Migration of Virtual Machines, NSDI 2005, 2): a round has what arrived before it began, ready or unacked. The
last one is of the frozen queue, whose unacked messages are all leased, and ends with the facts. **Invariant:** a
message in the queue has been written, or arrived after the last round began. So each round only appends, and a message
that is written and then settled is named in the facts as `gone`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

from penstock import bus
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.batch.ranges_cy import RangeSet
from penstock.files.directories import private
from shard.contents.delay_cy import DelayQueue
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.queue.queue_state import QueueState
from shard.store.environment import translated

_SIZE = Struct("<I")
_PIECE = Struct("<QIBqIIQ")
LINE_BITS = 48
"""Above these bits the number of a message has its priority (shard/contents/priority_cy.py)."""
MERGED = 256 * 1024
"""Bytes up to which small segments are merged into one piece."""
CHUNK = 2 * 1024 * 1024
"""Bytes written or read at a time: about a millisecond."""
NEAR = 1024 * 1024
"""Whole bytes that may be left for the last round, while clients wait."""

Chunk = list[Any]


class Facts(NamedTuple):
    """The state of a queue beside its messages.

    `positions` is as of `Queue.positions`; `deliveries` are counts of redeliveries, by sequence; `totals` are
    published, delivered, acked, redelivered, dropped, then bytes published and delivered, all since `counted_since`.
    `stop` is a `shard.queue.saturation.Stop` while the queue holds its producers; `lent` is the room lent beyond its
    stop marks; `lagging` marks a lagging queue. `gone` has (first, end) of written messages that are settled,
    `leases` ids and records (`Lease.record`).
    """

    positions: list[tuple[int, int, int, int]]
    deliveries: list[tuple[int, int]]
    totals: tuple[int, int, int, int, int, int, int]
    counted_since: int
    had_consumers: bool
    consumed: bool
    stop: tuple[int, int, int] | None
    lent: tuple[int, int]
    lagging: bool
    gone: list[tuple[int, int]]
    leases: list[tuple[str, bytes]]


class Piece(NamedTuple):
    """Messages of one batch; `sequence` is the number of the first."""

    sequence: int
    batch: Batch
    again: bool
    expiry: int
    expiries: bytearray | None


def facts_of(queue: QueueState, gone: list[tuple[int, int]]) -> Facts:
    """The facts of a queue for its copy."""
    contents, totals = queue.contents, queue.contents.totals
    counted = (
        totals.published, totals.delivered, totals.acked, totals.redelivered, totals.dropped,
        totals.published_bytes, totals.delivered_bytes,
    )  # fmt: skip
    return Facts(
        contents.positions(), contents.delivery_counts(), counted, queue.usage.counted_since,
        queue.usage.had_consumers, queue.usage.consumed, queue.saturation.stop(),
        queue.saturation.lent_beyond(), queue.exemption.lagging, gone,
        [(lease.id, lease.record()) for lease in queue.leases.values()],
    )  # fmt: skip


def pieces_of(queue: QueueState, parts: Iterable[tuple[Segment, int, int]]) -> Iterator[Piece]:
    """Parts of segments of a queue, as (segment, first message in it, count), with small ones merged. Raises StoreError
    if some cannot be read.
    """
    builder: BatchBuilder | None = None
    first, again, expiry = 0, False, 0
    for segment, offset, count in parts:
        sequence = segment.sequence + offset
        batch, row = loaded(queue, segment)
        if builder is not None:
            goes_on = first + builder.count == sequence and (again, expiry) == (segment.again, segment.expiry)
            if not goes_on or segment.expiries is not None or builder.used > MERGED:
                yield Piece(first, builder.finish(), again, expiry, None)
                builder = None
        if segment.expiries is not None or queue.last_values is not None:
            expiries = None if segment.expiries is None else segment.expiries[8 * offset : 8 * (offset + count)]
            rows = Batch(*batch.slices(row + offset, count))
            yield Piece(sequence, rows, segment.again, segment.expiry, expiries)
            continue
        if builder is None:
            builder, first, again, expiry = BatchBuilder(), sequence, segment.again, segment.expiry
        builder.extend(batch, row + offset, count)
    if builder is not None:
        yield Piece(first, builder.finish(), again, expiry, None)


def loaded(queue: QueueState, segment: Segment) -> tuple[Batch, int]:
    """The batch of a segment, which stays where it is, and the row of its first message."""
    if segment.batch is not None:
        return segment.batch, segment.first
    return queue.contents.load(segment), 0


def can_precopy(queue: QueueState) -> bool:
    """Whether messages stay what they are until they are settled: last values are replaced, and delayed messages do not
    leave in their order.
    """
    return queue.last_values is None and not isinstance(queue.contents, DelayQueue)


class Writer:
    """Writes the copy of a queue. `size` (bytes) and `checksum` are of the file so far; `ended` says that nothing
    follows. Chunks are made in the queue's thread, and written in any.
    """

    def __init__(self, path: Path, queue: QueueState) -> None:
        self.path = path
        self.size = self.checksum = 0
        self.ended = False
        self._queue = queue
        self._written = RangeSet()
        self._next: dict[int, int] = {}
        self._pieces: Iterator[Piece] = iter(())
        self._last = False
        self._file: BinaryIO | None = None

    def begin_round(self) -> None:
        """Begin to write what arrived since the round before."""
        self._pieces = self._new_pieces()

    def begin_last_round(self) -> None:
        """Begin to write what is left of the frozen queue."""
        self._last = True
        queue = self._queue
        self._pieces = self._new_pieces() if can_precopy(queue) else pieces_of(queue, queue.contents.survivors())

    def is_near(self) -> bool:
        """Whether so little has arrived since the last round began that the queue may be frozen for it."""
        room = NEAR
        for priority, _, end, _ in self._queue.contents.positions():
            rest = self._queue.contents.live_from(self._begin(priority), end, room)
            room -= sum(segment.whole for segment, _, _ in rest)
        return room > 0

    def next_chunk(self) -> Chunk | None:
        """The next chunk of a round; None at its end. Raises StoreError if it cannot be read."""
        if self.ended:
            return None
        chunk: Chunk = []
        nbytes = 0
        while nbytes < CHUNK:
            piece = next(self._pieces, None)
            if piece is None:
                break
            sequence, batch, again, expiry, expiries = piece
            rows, contents = batch.slices(0, batch.count)
            sizes = len(expiries or b""), len(rows), len(contents)
            chunk += (_PIECE.pack(sequence, batch.count, again, expiry, *sizes), expiries or b"", rows, contents)
            self._written.add(sequence, batch.count)
            nbytes += len(rows) + len(contents)
        if piece is None and self._last:
            self.ended = True
            facts = bus.pack(facts_of(self._queue, self._gone()))
            chunk += (_PIECE.pack(0, 0, 0, 0, 0, 0, 0), _SIZE.pack(len(facts)), facts)
        return chunk or None

    def _new_pieces(self) -> Iterator[Piece]:
        """What arrived since the round before, line by line; each window as it is when it is reached."""
        contents = self._queue.contents
        for priority, _, end, _ in contents.positions():
            at, self._next[priority] = self._begin(priority), end
            while window := contents.live_from(at, end, CHUNK):
                segment, offset, count = window[-1]
                at = segment.sequence + offset + count
                yield from list(pieces_of(self._queue, window))

    def _begin(self, priority: int) -> int:
        return self._next.get(priority, priority << LINE_BITS)

    def _gone(self) -> list[tuple[int, int]]:
        """Written messages that are not in the frozen queue."""
        if not can_precopy(self._queue):
            return []
        leased = chain.from_iterable(lease.held.ranges() for lease in self._queue.leases.values())
        for first, end in chain(self._queue.contents.ready_ranges(), leased):
            self._written.remove(first, end - first)
        return self._written.ranges()

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, in any thread. Raises StoreError on failure."""
        with translated(self.path):
            if self._file is None:
                self._file = open(self.path, "wb", opener=private)  # noqa: SIM115
            for part in chunk:
                self.checksum = zlib.crc32(part, self.checksum)
                self.size += self._file.write(part)
            self._file.flush()

    def close(self) -> None:
        """Close the file. Raises StoreError if not all of it was written."""
        if self._file is not None:
            with translated(self.path):
                self._file.close()

    def remove(self) -> None:
        """Close the file and remove it, as far as it is there. Raises StoreError on failure."""
        with translated(self.path):
            try:
                if self._file is not None:
                    self._file.close()
            finally:
                self.path.unlink(missing_ok=True)


class Reader:
    """Reads the copy of a queue; `size` (bytes) and `checksum` are of everything read so far. The `facts` are known at
    the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.checksum = 0
        self.facts: Facts | None = None
        self._file: BinaryIO | None = None

    def next_pieces(self, written: int) -> list[Piece]:
        """The next pieces among the first `written` bytes, in any thread; none if all were read. Raises StoreError if
        they cannot be read.
        """
        pieces: list[Piece] = []
        nbytes = 0
        with translated(self.path):
            if self._file is None and written:
                self._file = self.path.open("rb")
            while nbytes < CHUNK and self.size < written and self.facts is None:
                sequence, count, again, expiry, *sizes = _PIECE.unpack(self._take(_PIECE.size))
                if not count:
                    (size,) = _SIZE.unpack(self._take(_SIZE.size))
                    self.facts = Facts(*bus.unpack(self._take(size)))
                    break
                expiries, rows, contents = (self._take(size) for size in sizes)
                pieces.append(Piece(sequence, Batch(rows, contents), bool(again), expiry, bytearray(expiries) or None))
                nbytes += len(rows) + len(contents)
        return pieces

    def _take(self, size: int) -> bytes:
        assert self._file is not None
        data = self._file.read(size)
        if len(data) < size:
            raise StoreError(self.path, "it is cut short")
        self.checksum = zlib.crc32(data, self.checksum)
        self.size += size
        return data

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def path_of(shard: Path, queue_id: int, epoch: int) -> Path:
    """The path of a queue's copy, in the directory of its old home."""
    return shard / f"move-{queue_id}-{epoch}"


def remove_all(shard: Path) -> None:
    """Remove copies left by an earlier run: a shard that starts has no move in progress. Raises StoreError on
    failure.
    """
    with translated(shard):
        for path in shard.glob("move-*"):
            path.unlink(missing_ok=True)
