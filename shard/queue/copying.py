"""The copy of a queue on its way to another shard: one file in the old home's directory, removed when the move is over.

    head      size (4), then msgpack: [queue id, epoch, positions, deliveries, totals, counted since, had consumers,
              consumed, stop, lent, lagging]
    piece     sequence of the first message (8), count (4), again (1), expiry (8), sizes in bytes of expiries (4),
              of rows (4), of contents (8); then these three: 8 bytes a message or none, rows and contents of a batch
    end       a piece of no messages

Numbers are little-endian. A piece has consecutive messages, in order; settled messages are in none. The file promises
nothing: until its messages are in the store of the new home, they are in the old home as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

from penstock import bus
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.files.directories import private
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.queue.queue_state import QueueState
from shard.store.environment import translated

_SIZE = Struct("<I")
_PIECE = Struct("<QIBqIIQ")
MERGED = 256 * 1024
"""Bytes up to which small segments are merged into one piece."""
CHUNK = 2 * 1024 * 1024
"""Bytes written or read at a time: about a millisecond."""

Chunk = list[Any]


class Facts(NamedTuple):
    """The state of a queue beside its messages.

    `positions` is as of `Queue.positions`; `deliveries` are counts of redeliveries, by sequence; `totals` are
    published, delivered, acked, redelivered, dropped, then bytes published and delivered, all since `counted_since`.
    `stop` is a `shard.queue.saturation.Stop` while the queue holds its producers; `lent` is the room lent beyond its
    stop marks; `lagging` marks a lagging queue.
    """

    queue_id: int
    epoch: int
    positions: list[tuple[int, int, int, int]]
    deliveries: list[tuple[int, int]]
    totals: tuple[int, int, int, int, int, int, int]
    counted_since: int
    had_consumers: bool
    consumed: bool
    stop: tuple[int, int, int] | None
    lent: tuple[int, int]
    lagging: bool


class Piece(NamedTuple):
    """Messages of one batch; `sequence` is the number of the first."""

    sequence: int
    batch: Batch
    again: bool
    expiry: int
    expiries: bytearray | None


def facts_of(queue: QueueState, epoch: int) -> Facts:
    """The facts of a queue for its copy."""
    contents, totals = queue.contents, queue.contents.totals
    counted = (
        totals.published, totals.delivered, totals.acked, totals.redelivered, totals.dropped,
        totals.published_bytes, totals.delivered_bytes,
    )  # fmt: skip
    return Facts(
        queue.id, epoch, contents.positions(), contents.delivery_counts(), counted, queue.usage.counted_since,
        queue.usage.had_consumers, queue.usage.consumed, queue.saturation.stop(),
        queue.saturation.lent_beyond(), queue.exemption.lagging,
    )  # fmt: skip


def pieces_of(queue: QueueState) -> Iterator[Piece]:
    """All ready messages, with small segments merged. Raises StoreError if some cannot be read."""
    builder: BatchBuilder | None = None
    first, again, expiry = 0, False, 0
    for segment, offset, count in queue.contents.survivors():
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


class Writer:
    """Writes the copy of a queue. `count`, `nbytes` (whole bytes) and `checksum` are of everything so far."""

    def __init__(self, path: Path, queue: QueueState, epoch: int) -> None:
        self.path = path
        self.count = self.nbytes = self.checksum = 0
        self._pieces = pieces_of(queue)
        self._head: bytes | None = bus.pack(facts_of(queue, epoch))
        self._file: BinaryIO | None = None
        self._ended = False

    def next_chunk(self) -> Chunk | None:
        """The next chunk to write, made in the queue's thread; None at the end. Raises StoreError if it cannot be
        read.
        """
        if self._ended:
            return None
        chunk: Chunk = []
        nbytes = 0
        if self._head is not None:
            chunk += (_SIZE.pack(len(self._head)), self._head)
            self._head = None
        while nbytes < CHUNK:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                chunk.append(_PIECE.pack(0, 0, 0, 0, 0, 0, 0))
                break
            sequence, batch, again, expiry, expiries = piece
            rows, contents = batch.slices(0, batch.count)
            sizes = len(expiries or b""), len(rows), len(contents)
            chunk += (_PIECE.pack(sequence, batch.count, again, expiry, *sizes), expiries or b"", rows, contents)
            self.count += batch.count
            self.nbytes += batch.whole(0, batch.count)
            nbytes += len(rows) + len(contents)
        return chunk

    def write(self, chunk: Chunk) -> None:
        """Write a chunk, in any thread. Raises StoreError on failure."""
        with translated(self.path):
            if self._file is None:
                self._file = open(self.path, "wb", opener=private)  # noqa: SIM115
            for part in chunk:
                self.checksum = zlib.crc32(part, self.checksum)
                self._file.write(part)

    def close(self) -> None:
        """Close the file. Raises StoreError if not all of it was written."""
        if self._file is not None:
            with translated(self.path):
                self._file.close()


class Reader:
    """Reads the copy of a queue; `checksum` is of everything read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checksum = 0
        self.facts: Facts | None = None
        self._ended = False
        self._file: BinaryIO | None = None

    def next_pieces(self) -> list[Piece]:
        """The next pieces, in any thread; none at the end. Raises StoreError if they cannot be read."""
        pieces: list[Piece] = []
        nbytes = 0
        with translated(self.path):
            if self._file is None:
                self._file = self.path.open("rb")
                (size,) = _SIZE.unpack(self._take(_SIZE.size))
                self.facts = Facts(*bus.unpack(self._take(size)))
            while nbytes < CHUNK and not self._ended:
                sequence, count, again, expiry, *sizes = _PIECE.unpack(self._take(_PIECE.size))
                if not count:
                    self._ended = True
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
