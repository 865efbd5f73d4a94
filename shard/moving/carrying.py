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

if TYPE_CHECKING:
    from router.model.records import Move
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
            if leaving.copy is None:
                leaving.copy = Writer(self.path_of(leaving.move), leaving.queue)
            self.begin_round(leaving, leaving.copy)
        removals, self.moving.removals = self.moving.removals, []
        for copy in removals:
            self.remove(copy)
        for arriving in reads:
            self.read_on(arriving, Reader(self.path_of(arriving.move)))

    def path_of(self, move: Move) -> Path:
        """The path of the copy of a moving queue."""
        return path_of(self.stores / str(move.source), move.queue_id, move.epoch)

    def begin_round(self, leaving: Leaving, copy: Writer) -> None:
        """Begin the next round of a copy: the last one if the queue is frozen, and all has arrived."""
        if leaving.stage is CopyStage.IN_PROGRESS:
            copy.begin_last_round()
        else:
            copy.begin_round()
        self.write_on(leaving, copy)

    def write_on(self, leaving: Leaving, copy: Writer) -> None:
        """Write the next chunk of a round, and repeat until its end."""
        if leaving.stage is CopyStage.OVER:
            self.remove(copy)
            return
        try:
            chunk = copy.next_chunk()
        except StoreError as error:
            self.fail(leaving, copy, error)
            return

        def done(error: StoreError | None) -> None:
            if error is not None:
                self.fail(leaving, copy, error)
                return
            if leaving.stage is CopyStage.AHEAD:
                self.moving.written_ahead(leaving, copy.size)
            self.write_on(leaving, copy)

        if chunk is not None:
            self.in_background(lambda: copy.write(chunk), done)
        elif copy.ended:
            self.in_background(copy.close, lambda error: self.end(leaving, copy, error))
        elif leaving.stage is CopyStage.IN_PROGRESS:
            self.begin_round(leaving, copy)
        else:
            leaving.busy = False
            self.moving.precopy(leaving)

    def end(self, leaving: Leaving, copy: Writer, error: StoreError | None) -> None:
        """A copy is complete, or could not be closed."""
        if error is not None:
            self.fail(leaving, copy, error)
        elif leaving.stage is CopyStage.OVER:
            self.remove(copy)
        else:
            leaving.busy = False
            self.moving.copy_written(leaving, copy.checksum)

    def fail(self, leaving: Leaving, copy: Writer, error: StoreError) -> None:
        """A copy could not be written."""
        leaving.busy = False
        self.moving.failed(leaving, error.reason)
        self.remove(copy)

    def remove(self, copy: Writer) -> None:
        """Remove a copy in the background."""
        self.in_background(copy.remove, _closed)

    def read_on(self, arriving: Arriving, reader: Reader) -> None:
        """Read the next pieces of a copy, and repeat until its end, or as far as it is written."""
        if arriving.stage is not CopyStage.IN_PROGRESS:
            reader.close()
            return
        pieces: list[Piece] = []
        readable = arriving.readable

        def read() -> None:
            pieces.extend(reader.next_pieces(readable))

        def done(error: StoreError | None) -> None:
            read_on = partial(self.read_on, arriving, reader)
            if error is not None:
                self.moving.failed(arriving, error.reason)
                reader.close()
            elif arriving.stage is not CopyStage.IN_PROGRESS:
                reader.close()
            elif pieces:
                self.moving.adopt_pieces(arriving, pieces, read_on)
            elif reader.facts is not None:
                self.moving.adopt_facts(arriving, reader.facts, reader.checksum)
                reader.close()
            else:
                self.moving.is_read(arriving, reader.size, read_on)

        self.in_background(read, done)


def _closed(error: StoreError | None) -> None:
    if error is not None:
        log.warning("copy of a queue was not closed or removed", problem=str(error))
