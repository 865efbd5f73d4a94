"""Parked contents on disk: publishes of held producers beyond the acceptor's share of memory.

One file, unlinked as soon as it is open, so that it ends with its process. Contents are written as they are parked and
read when their turn has come; freed space is used again. Beyond its limit, or while the disk accepts nothing, contents
stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from pathlib import Path

from acceptor.clients.parked import ParkedRun
from penstock.amqp.errors import amqp_error
from penstock.batch.batch_cy import Batch
from penstock.node.logs import get_logger

log = get_logger()

# Runs of fewer bytes are packed.
PACKED_BYTES = 1024


class Spool:
    """The file of parked contents. `held` is its size in use, in bytes; contents go there once more than `memory` bytes
    are parked beside them.

    `refuses` while the disk accepts nothing, or the file is at its limit.
    """

    def __init__(self, directory: Path, memory: int, limit: int) -> None:
        self.memory = memory
        self.limit = limit
        self.held = 0
        self._directory = directory
        self._file: int | None = None
        self._end = 0
        self._free: list[tuple[int, int]] = []
        self.refuses = False
        self._warned = False

    def parked(self, run: ParkedRun, nbytes: int, early: bool = False) -> ParkedRun:
        """Return a run as it is to be parked, with its contents in memory or on disk; `nbytes` bytes are parked in all
        then.

        `early`: on disk even if memory is free.
        """
        if isinstance(run, SpooledRun):
            return run
        if nbytes - self.held <= self.memory and not early:
            return packed(run)
        extent = self.put(*run.batch.slices(run.first, run.count))
        return packed(run) if extent is None else SpooledRun(run, extent)

    def put(self, rows: memoryview, contents: memoryview) -> Extent | None:
        """Write contents; return where they are, None if there is no room."""
        size = len(rows) + len(contents)
        start = self._take(size)
        if start is None:
            self.refuses = True
            return None
        try:
            written = os.pwritev(self._open(), [rows, contents], start)
        except OSError as error:
            written, problem = 0, str(error.strerror)
        else:
            problem = "No space left on device"
        if written < size:
            self._give(start, size)
            if not self._warned:
                log.warning("parked contents stay in memory", problem=problem)
            self._warned = self.refuses = True
            return None
        self._warned = self.refuses = False
        self.held += size
        return Extent(self, start, len(rows), size)

    def read(self, start: int, size: int) -> bytes:
        """Read contents. OSError if that fails."""
        data = os.pread(self._open(), size, start)
        if len(data) < size:
            raise OSError(f"{len(data)} of {size} bytes of parked contents")
        return data

    def release(self, start: int, size: int) -> None:
        """Free the space of contents that are no longer needed."""
        self.held -= size
        self._give(start, size)

    def _open(self) -> int:
        """The file, made when it is first needed."""
        if self._file is None:
            self._file, path = tempfile.mkstemp(prefix="parked-", dir=self._directory)
            os.unlink(path)
        return self._file

    def _take(self, size: int) -> int | None:
        """Return a place for `size` bytes: the first that is free and large enough, or at the end; None beyond the
        limit.
        """
        for index, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[index : index + 1] = [(start + size, length - size)] if length > size else []
                return start
        if self._end + size > self.limit:
            return None
        self._end += size
        return self._end - size

    def _give(self, start: int, size: int) -> None:
        """Free a range, joined with free ranges before and behind it; free space at the end is cut off."""
        index = bisect_left(self._free, (start, 0))
        first, last = index, index
        if index and sum(self._free[index - 1]) == start:
            first, start, size = index - 1, self._free[index - 1][0], size + self._free[index - 1][1]
        if index < len(self._free) and start + size == self._free[index][0]:
            last, size = index + 1, size + self._free[index][1]
        self._free[first:last] = [(start, size)]
        if start + size == self._end:
            self._free.pop()
            self._end = start
            if self._file is not None:
                os.ftruncate(self._file, start)


class Extent:
    """The place of contents: rows, then records. It is freed with the last reference to it."""

    __slots__ = ("rows", "size", "spool", "start")

    def __init__(self, spool: Spool, start: int, rows: int, size: int) -> None:
        self.spool = spool
        self.start = start
        self.rows = rows
        self.size = size

    def __del__(self) -> None:
        self.spool.release(self.start, self.size)

    def load(self) -> Batch:
        """Read the contents. AMQPError if that fails: their publisher has to learn that they are lost."""
        try:
            data = self.spool.read(self.start, self.size)
        except OSError as error:
            log.error("parked contents are lost", bytes=self.size, problem=error.strerror or str(error))
            raise amqp_error(541, "parked publishes cannot be read back") from error
        return Batch(data[: self.rows], data[self.rows :])


class Packed:
    """Contents in memory, without the objects that a batch has beside them."""

    __slots__ = ("data", "rows")

    def __init__(self, rows: memoryview, contents: memoryview) -> None:
        self.data = b"".join((rows, contents))
        self.rows = len(rows)

    def load(self) -> Batch:
        """Return the contents as a batch."""
        return Batch(self.data[: self.rows], self.data[self.rows :])


def packed(run: ParkedRun) -> ParkedRun:
    """Return a run that stays in memory, packed if it is small: a run of few small messages takes many times their
    size.
    """
    return SpooledRun(run, Packed(*run.batch.slices(run.first, run.count))) if run.nbytes < PACKED_BYTES else run


class SpooledRun(ParkedRun):
    """A parked run whose contents are read when its batch is first accessed; from then on they are in memory."""

    __slots__ = ("_extent",)

    def __init__(self, run: ParkedRun, extent: Extent | Packed) -> None:
        self.address = run.address
        self.mandatory = run.mandatory
        self.first = 0
        self.count = run.count
        self.tag = run.tag
        self.further = run.further
        self.nbytes = run.nbytes
        self.since = run.since
        self.in_lane = run.in_lane
        self._extent: Extent | Packed | None = extent

    def __getattr__(self, name: str) -> Batch:
        """Load the batch on first access; called for attributes that are not set."""
        if name != "batch" or self._extent is None:
            raise AttributeError(name)
        self.batch = self._extent.load()
        self._extent = None
        return self.batch
