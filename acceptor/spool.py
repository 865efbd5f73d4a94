"""Parked contents on disk: what held producers have sent beyond the acceptor's share of memory.

One file, unlinked as soon as it is open, so that it ends with its process. Contents are written as they are parked and
read when their turn has come; what was in between is given back and used again. Beyond its limit, or where the disk
takes nothing, contents stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left
from pathlib import Path

from acceptor.parked import ParkedRun
from penstock.amqp.errors import amqp_error
from penstock.batch.batch_cy import Batch
from penstock.node.logs import get_logger

log = get_logger()

# Smaller runs are packed.
PACKED_OCTETS = 1024


class Spool:
    """`held` is how many octets it has; contents go there once more than `memory` octets are parked beside them.

    `refuses` while it takes nothing: the disk does not, or it is at its limit.
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

    def parked(self, run: ParkedRun, octets: int, early: bool = False) -> ParkedRun:
        """A run as it is to be parked beside so many octets of others: with its contents here, if they are to be.

        `early`: whatever is free in memory.
        """
        if isinstance(run, SpooledRun):
            return run
        if octets - self.held <= self.memory and not early:
            return packed(run)
        extent = self.put(*run.batch.slices(run.first, run.count))
        return packed(run) if extent is None else SpooledRun(run, extent)

    def put(self, rows: memoryview, contents: memoryview) -> Extent | None:
        """Write contents; where they are, None if there is no room."""
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
        """OSError if that fails."""
        octets = os.pread(self._open(), size, start)
        if len(octets) < size:
            raise OSError(f"{len(octets)} of {size} octets of parked contents")
        return octets

    def release(self, start: int, size: int) -> None:
        """Nobody wants them any more."""
        self.held -= size
        self._give(start, size)

    def _open(self) -> int:
        """The file, made when it is first needed."""
        if self._file is None:
            self._file, path = tempfile.mkstemp(prefix="parked-", dir=self._directory)
            os.unlink(path)
        return self._file

    def _take(self, size: int) -> int | None:
        """A place for so many octets: the first that is free and large enough, or at the end."""
        for index, (start, length) in enumerate(self._free):
            if length >= size:
                self._free[index : index + 1] = [(start + size, length - size)] if length > size else []
                return start
        if self._end + size > self.limit:
            return None
        self._end += size
        return self._end - size

    def _give(self, start: int, size: int) -> None:
        """Join it with what is free before and behind it; what is free at the end is cut off."""
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
    """Where contents are: rows, then records. They are given back with the last reference to it."""

    __slots__ = ("rows", "size", "spool", "start")

    def __init__(self, spool: Spool, start: int, rows: int, size: int) -> None:
        self.spool = spool
        self.start = start
        self.rows = rows
        self.size = size

    def __del__(self) -> None:
        self.spool.release(self.start, self.size)

    def load(self) -> Batch:
        """AMQPError if they cannot be read: whoever published them has to hear that they are lost."""
        try:
            octets = self.spool.read(self.start, self.size)
        except OSError as error:
            log.error("parked contents are lost", octets=self.size, problem=error.strerror or str(error))
            raise amqp_error(541, "parked publishes cannot be read back") from error
        return Batch(octets[: self.rows], octets[self.rows :])


class Packed:
    """Contents in memory, without all that a batch has beside them."""

    __slots__ = ("octets", "rows")

    def __init__(self, rows: memoryview, contents: memoryview) -> None:
        self.octets = b"".join((rows, contents))
        self.rows = len(rows)

    def load(self) -> Batch:
        return Batch(self.octets[: self.rows], self.octets[self.rows :])


def packed(run: ParkedRun) -> ParkedRun:
    """A run that stays in memory: one of few small messages would take many times what it has."""
    return SpooledRun(run, Packed(*run.batch.slices(run.first, run.count))) if run.octets < PACKED_OCTETS else run


class SpooledRun(ParkedRun):
    """A parked run whose contents are read when somebody asks for its batch; from then on they are in memory."""

    __slots__ = ("_extent",)

    def __init__(self, run: ParkedRun, extent: Extent | Packed) -> None:
        self.address = run.address
        self.mandatory = run.mandatory
        self.first = 0
        self.count = run.count
        self.tag = run.tag
        self.further = run.further
        self.octets = run.octets
        self.since = run.since
        self.in_lane = run.in_lane
        self._extent: Extent | Packed | None = extent

    def __getattr__(self, name: str) -> Batch:
        """Called for what is not there yet."""
        if name != "batch" or self._extent is None:
            raise AttributeError(name)
        self.batch = self._extent.load()
        self._extent = None
        return self.batch
