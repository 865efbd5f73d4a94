"""Does the work on a shard's store in threads, so that the loop does not wait for the disk.

A writer has the commits, one at a time; a reader what consumers will soon want, and the copies of moving queues; a
flusher what is to reach the disk. Their results are applied in the loop, and finish a turn of the core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from penstock.batch.batch_cy import Batch
from penstock.node.clock import now_us
from penstock.process.recent_samples import RecentSamples
from router.model.records import LEAVING
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.core import ShardCore
from shard.disk_room import DiskRoom
from shard.moving.carrying import Carrier
from shard.queue.queue_state import QueueState
from shard.serving.paging import SLICE
from shard.store.background import Background, Job
from shard.store.flushes import Flushes
from shard.store.journal import Commit, Journal
from shard.store.store import Store
from shard.turns.room import UNFLUSHED

# Seconds until a failed commit is retried.
RETRY_SECONDS = 1.0


class StoreWork:
    """The work on the store of one shard; `finish_turn` finishes a turn of its core.

    `writing` is the commit in flight, with its job. The writer is `resting` from a failed commit until it is retried.
    Once the shard is `ending` no work begins that it would have to wait for. `commit_us` is how long commits took.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, core: ShardCore, store: Store, journal: Journal, flush_ms: int,
        finish_turn: Callable[[], None],
    ) -> None:  # fmt: skip
        self.loop = loop
        self.store = store
        self.journal = journal
        self.finish_turn = finish_turn
        self.state, self.gate, self.commits, self.paging = core.state, core.gate, core.commits, core.paging
        self.commits.flushed_later = flush_ms > 0
        self.spill_all = core.spill_all
        core.stalls.set_aside = store.set_aside
        self.writing: tuple[Commit, Job] | None = None
        self.resting = False
        self.ending = False
        self.commit_us = RecentSamples()
        self.flushes = Flushes(loop, flush_ms / 1000, self.sync)
        self.disk_room = DiskRoom(loop, store, self.state, self.gate, self.check_disk_room)
        self.carrier = Carrier(core.moving, store.path.parent, self.carry)
        self.writer = Background(loop, "writer")
        self.reader = Background(loop, "reader")
        self.flusher = Background(loop, "flusher")

    def begin(self) -> None:
        """Begin what the turn that has just been finished wants: copies, a commit, a flush, reads."""
        self.carrier.begin()
        commit = None if self.resting else self.commits.hand_over()
        if commit is not None:
            writing = self.in_background(
                self.writer, lambda: self.write(commit), lambda error: self.written(commit, error)
            )
            self.writing = commit, writing
        if self.commits.awaited:
            self.flushes.want(at_once=True)
        reads, self.paging.reads = self.paging.reads, []
        for queue, segments in reads:
            self.read_ahead(queue, segments)

    def in_background(
        self, thread: Background, do: Callable[[], None], done: Callable[[StoreError | None], None]
    ) -> Job:
        """Run a function on the store in a thread."""

        def finish(job: Job) -> None:
            error = job.error
            if error is not None and not isinstance(error, StoreError):
                raise error
            self.state.now = now_us()
            done(error)

        return thread.begin(do, finish)

    # Commits

    def write(self, commit: Commit) -> None:
        """Write a commit, in the writer's thread."""
        began = time.monotonic_ns()
        self.store.write(commit)
        self.disk_room.check()
        self.commit_us.add((time.monotonic_ns() - began) // 1000)

    def written(self, commit: Commit, error: StoreError | None) -> None:
        """A commit is in the store, or will be retried together with later changes."""
        self.writing = None
        if error is not None:
            self.resting = True
            self.loop.call_later(RETRY_SECONDS, self.commit_again)
            self.commits.failed(commit, error.reason)
        else:
            if self.store.overflowed():
                self.gate.store_overflows(self.state.now)
            self.commits.written()
            self.flushes.want()
            self.disk_room.report()
        self.finish_turn()

    def commit_again(self) -> None:
        """Retry a failed commit."""
        self.resting = False
        self.state.now = now_us()
        self.finish_turn()

    def check_disk_room(self) -> None:
        """Check the disk without a commit, unless the shard is ending."""
        if self.ending:
            return

        def checked(_error: StoreError | None) -> None:
            self.disk_room.report()
            self.finish_turn()

        self.in_background(self.writer, self.disk_room.check, checked)

    # Reads and copies

    def read_ahead(self, queue: QueueState, segments: list[Segment]) -> None:
        """Read contents that consumers will soon want."""
        batches: list[Batch] = []

        def read() -> None:
            batches.extend(self.journal.load(queue.id, segment) for segment in segments)

        def done(error: StoreError | None) -> None:
            self.paging.were_read(queue, segments, batches)
            self.finish_turn()

        self.in_background(self.reader, read, done)

    def carry(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        """Run a piece of a queue's copy in the reader's thread."""
        if self.ending:
            return

        def finish(error: StoreError | None) -> None:
            done(error)
            self.finish_turn()

        self.in_background(self.reader, work, finish)

    # Flushes

    def sync(self) -> None:
        """Flush everything written since the last flush to the disk."""
        self.commits.flush_begins()
        self.in_background(self.flusher, self.store.sync, self.synced)

    def synced(self, error: StoreError | None) -> None:
        """A flush has ended."""
        if error is None:
            self.gate.store_works(UNFLUSHED, self.state.now)
            self.commits.flushed()
        else:
            self.commits.not_flushed()
            self.gate.store_fails(UNFLUSHED, error.reason, self.state.now)
        self.flushes.ended(error is not None)
        self.finish_turn()

    def end(self, hands_over: bool = False) -> None:
        """Write everything that remains, and close the store; delete an empty store of a shard that is removed. A shard
        that hands over to its next incarnation also writes what a restart of the node does not keep.

        Raises StoreError on failure.
        """
        self.flushes.stop()
        self.disk_room.stop()
        self.reader.end()
        self.writer.end()
        self.flusher.end()
        if self.writing is not None:
            commit, writing = self.writing
            if writing.error is None:
                self.commits.written()
            else:
                self.commits.take_back(commit)
        gathered = 0
        for nbytes in self.spill_all() if hands_over else ():
            gathered += nbytes
            if gathered >= SLICE:
                self.write_gathered()
                gathered = 0
        self.commits.record_positions()
        self.write_gathered()
        known = self.state.topology.shards.get(self.state.index)
        if known is not None and known.state == LEAVING and self.store.is_empty():
            self.store.discard()
        else:
            self.store.end()

    def write_gathered(self) -> None:
        """Write the gathered changes, in this thread. Raises StoreError on failure."""
        commit = self.commits.hand_over()
        if commit is not None:
            self.store.write(commit)
            self.commits.written()
