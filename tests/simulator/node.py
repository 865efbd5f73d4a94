"""The node of a world: joined cores in which nothing happens at once that takes time in a real node.

What two processes say to each other waits in line until the world delivers it; a turn that would wait a moment for
settlements waits for virtual time to pass; requests to the router travel like everything else.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from acceptor.links.outgoing import SETTLING_SECONDS
from penstock.batch.batch_cy import Batch
from penstock.node.clock import Clock
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.queue.queue_state import QueueState
from shard.queue.saturation import Stop
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Shard, at_once

Job = tuple[Callable[[], None], Callable[[StoreError | None], None]]
"""Work of a shard's reading thread, and what the shard does with the result."""


class SimulatedNode(Node):
    """Joined cores whose time is the world's. `jobs` has what each shard's reading thread has still to do."""

    router_answers_at_once = False

    def __init__(self, acceptors: int, shards: int, flow: dict[str, Any], stores: bool) -> None:
        self.jobs: dict[int, deque[Job]] = defaultdict(deque)
        super().__init__(acceptors, shards, flow, stores)

    def clock(self) -> Clock:
        """Return a clock of virtual time."""
        return Clock(self.microseconds, self.microseconds)

    def start_shard(self, index: int, earlier: Mapping[int, Stop] | None = None) -> None:
        """Start a shard that reads and copies in the background."""
        self.jobs[index].clear()
        super().start_shard(index, earlier)
        shard = self.shards[index]
        assert shard is not None
        shard.carrier.in_background = lambda work, done: self.jobs[index].append((work, done))
        shard.begin_read = partial(self.begin_read, index, shard)

    def begin_read(self, index: int, shard: Shard, queue: QueueState, segments: list[Segment]) -> None:
        """Have segments read that consumers will soon want."""
        batches: list[Batch] = []
        work = partial(load, shard, queue, segments, batches)
        self.jobs[index].append((work, partial(were_read, shard, queue, segments, batches)))

    def fail_commit(self, index: int) -> None:
        """Have the disk refuse a shard's commit."""
        shard = self.shards[index]
        assert shard is not None and shard.writing is not None
        commit = shard.writing
        shard.writing = None
        shard.core.state.now = self.microseconds()
        shard.core.commits.failed(commit, "No space left on device")

    def do_job(self, index: int) -> None:
        """Do the next job of a shard's reading thread."""
        at_once(*self.jobs[index].popleft())

    def end_turn(self, index: int) -> float | None:
        """End an acceptor's turn; return in how many seconds another is due at the latest, None if none is."""
        acceptor = self.acceptors[index]
        if acceptor is None:
            return None
        acceptor.core.state.now = self.now
        self.send(index, acceptor, acceptor.core.finish_turn())
        self.write_out(acceptor)
        gates = acceptor.core.gates
        waits = [SETTLING_SECONDS] if acceptor.core.waits() else []
        if gates.metered.closed and (due := gates.metered.due()) is not None:
            waits.append(due)
        if gates.routing.waiting:
            waits.append(0.0)
        return min(waits, default=None)


def load(shard: Shard, queue: QueueState, segments: list[Segment], batches: list[Batch]) -> None:
    """Read segments of a queue."""
    assert shard.core.state.journal is not None
    batches += [shard.core.state.journal.load(queue.id, segment) for segment in segments]


def were_read(
    shard: Shard, queue: QueueState, segments: list[Segment], batches: list[Batch], _error: StoreError | None
) -> None:
    """Hand over what has been read: less than was asked for if a segment could not be read."""
    shard.core.paging.were_read(queue, segments, batches)
