"""Has the copies of moving queues written and read by a background thread: the loop does not wait for the disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.node.logs import get_logger
from shard.contents.errors import StoreError
from shard.moving.copy_stage import CopyStage
from shard.queue.copying import Piece, Reader, Writer, path_of
from shard.store.environment import translated

if TYPE_CHECKING:
    from shard.moving.moving import Arriving, Leaving, Moving

log = get_logger()

InBackground = Callable[[Callable[[], None], Callable[[StoreError | None], None]], object]
"""Runs the first function in a thread, then the second in the loop, with the error if there was one."""


class Carrier:
    """Carries out the writes, reads and removals of `Moving`. `stores` is the directory with the stores of all
    shards.
    """

    def __init__(self, moving: Moving, stores: Path, in_background: InBackground) -> None:
        self.moving = moving
        self.stores = stores
        self.in_background = in_background

    def begin(self) -> None:
        """Begin the waiting writes, removals and reads."""
        writes, self.moving.writes = self.moving.writes, []
        reads, self.moving.reads = self.moving.reads, []
        for leaving in writes:
            move = leaving.move
            path = path_of(self.stores / str(move.source), move.queue_id, move.epoch)
            leaving.path = path
            self.write_on(leaving, Writer(path, leaving.queue, move.epoch))
        removals, self.moving.removals = self.moving.removals, []
        for path in removals:
            self.remove(path)
        for arriving in reads:
            move = arriving.move
            self.read_on(arriving, Reader(path_of(self.stores / str(move.source), move.queue_id, move.epoch)))

    def write_on(self, leaving: Leaving, writer: Writer) -> None:
        """Write the next chunk of a copy, and repeat until its end."""
        try:
            chunk = None if leaving.stage is CopyStage.OVER else writer.next_chunk()
        except StoreError as error:
            self.moving.failed(leaving, error.reason)
            self.remove(writer.path)
            return

        def done(error: StoreError | None) -> None:
            if error is not None:
                self.moving.failed(leaving, error.reason)
                self.remove(writer.path)
            else:
                self.write_on(leaving, writer)

        if chunk is not None:
            self.in_background(lambda: writer.write(chunk), done)
        elif leaving.stage is CopyStage.OVER:
            self.in_background(writer.close, _closed)
            self.remove(writer.path)
        else:
            self.in_background(writer.close, lambda error: self.end(leaving, writer, error))

    def end(self, leaving: Leaving, writer: Writer, error: StoreError | None) -> None:
        """A copy is complete, or could not be closed."""
        if error is not None:
            self.moving.failed(leaving, error.reason)
        else:
            self.moving.copy_written(leaving, writer.count, writer.nbytes, writer.checksum)

    def remove(self, path: Path) -> None:
        """Remove a file in the background."""

        def unlink() -> None:
            with translated(path):
                path.unlink(missing_ok=True)

        self.in_background(unlink, _closed)

    def read_on(self, arriving: Arriving, reader: Reader) -> None:
        """Read the next pieces of a copy, and repeat until its end."""
        pieces: list[Piece] = []

        def read() -> None:
            pieces.extend(reader.next_pieces())

        def done(error: StoreError | None) -> None:
            if error is not None:
                self.moving.failed(arriving, error.reason)
            elif arriving.stage is CopyStage.IN_PROGRESS and pieces:
                self.moving.adopt_pieces(arriving, pieces, partial(self.read_on, arriving, reader))
                return
            elif arriving.stage is CopyStage.IN_PROGRESS:
                assert reader.facts is not None
                self.moving.adopt_facts(arriving, reader.facts, reader.checksum)
            reader.close()

        self.in_background(read, done)


def _closed(error: StoreError | None) -> None:
    if error is not None:
        log.warning("copy of a queue was not closed or removed", problem=str(error))
