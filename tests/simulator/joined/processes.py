"""One incarnation of an acceptor, and one of a shard: a core with what waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from acceptor.core import AcceptorCore
from penstock.batch.batch_cy import Batch
from penstock.bus.operations_cy import Operation
from penstock.bus.router_client import Follower
from penstock.bus.shard_incarnations import ShardIncarnations
from penstock.settings import Settings
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.core import ShardCore
from shard.moving.carrying import Carrier, InBackground
from shard.queue.queue_state import QueueState
from shard.store.journal import Commit
from shard.store.store import Store

Follow = Callable[[int, list[Any]], None]


class Process:
    """One incarnation of a process that follows the router: what it has asked, and the changes and replies that it has
    yet to receive. `load` and `apply` are those of its replica of the topology.
    """

    def __init__(self, role: str, index: int, incarnation: int, load: Follow, apply: Follow) -> None:
        self.incarnation = incarnation
        self.identity = f"{role}.{index}.{incarnation}".encode()
        self.changes: deque[bytes] = deque()
        self.replies: deque[bytes] = deque()
        self.asked: list[bytes] = []
        self.router = Follower(load, apply, self.asked.append)


class Acceptor(Process):
    """One incarnation of an acceptor, in a seat. `known` has the shards that it has met; `events` are the supervisor's
    that it has yet to receive: event, shard, incarnation.
    """

    def __init__(self, core: AcceptorCore, seat: int, shards: int) -> None:
        super().__init__("acceptor", core.state.index, core.state.incarnation, core.load, core.apply)
        self.core = core
        self.seat = seat
        self.requesting = core.state
        self.known = ShardIncarnations(shards)
        self.events: deque[tuple[str, int, int]] = deque()


class Shard(Process):
    """One incarnation of a shard, with its `store` if it has one. `writing` is the commit that was handed over, and
    `directory` has the copies of moving queues. `in_background` stands for the reading thread. `known` and `events` are
    as for an acceptor; an event names the role too.
    """

    def __init__(
        self, core: ShardCore, incarnation: int, store: Store | None, directory: Path, settings: Settings
    ) -> None:
        super().__init__("shard", core.state.index, incarnation, self.load_topology, self.apply)
        self.core = core
        self.settings = settings
        self.store = store
        self.writing: Commit | None = None
        self.requesting = core.state
        self.in_background: InBackground = at_once
        self.carrier = Carrier(core.moving, directory, lambda work, done: self.in_background(work, done))
        self.known = ShardIncarnations(core.state.gauges.shards)
        self.events: deque[tuple[str, str, int, int]] = deque()
        self.recovered: dict[int, int] = {}
        """How many messages queues had when this incarnation, or one of an earlier home, began."""

    def load_topology(self, version: int, changes: list[Any]) -> None:
        """Load a snapshot of the topology."""
        self.core.load(version, changes)
        self.share_limits()

    def apply(self, version: int, changes: list[Any]) -> None:
        """Apply changes of the topology."""
        self.core.apply(version, changes)
        if any(change[0] in ("shard", "shard_gone") for change in changes):
            self.share_limits()

    def share_limits(self) -> None:
        """Share the node's limits among the present shards."""
        self.core.share_limits(self.settings, len(self.core.state.topology.shards))

    def read_ahead(self) -> None:
        """Have the segments read that consumers will soon want."""
        reads, self.core.paging.reads = self.core.paging.reads, []
        for queue, segments in reads:
            batches: list[Batch] = []
            self.in_background(
                partial(self.load, queue, segments, batches), partial(self.were_read, queue, segments, batches)
            )

    def load(self, queue: QueueState, segments: list[Segment], batches: list[Batch]) -> None:
        """Read segments of a queue."""
        assert self.core.state.journal is not None
        batches.extend(self.core.state.journal.load(queue.id, segment) for segment in segments)

    def were_read(
        self, queue: QueueState, segments: list[Segment], batches: list[Batch], _error: StoreError | None
    ) -> None:
        """Hand over what has been read: less than was asked for if a segment could not be read."""
        self.core.paging.were_read(queue, segments, batches)

    def commit(self) -> bool:
        """Write the commit that was handed over, or hand over the next one; return whether there was one."""
        if self.writing is None:
            self.writing = self.core.commits.hand_over()
            return self.writing is not None
        self.write()
        self.core.commits.written()
        return True

    def write(self) -> None:
        """Write the commit that was handed over."""
        assert self.store is not None and self.writing is not None
        commit, self.writing = self.writing, None
        self.store.write(commit)

    def end(self, written: bool) -> None:
        """End this incarnation; with `written`, the commit handed over still reaches the store."""
        if self.store is None:
            return
        if self.writing is not None and written:
            self.write()
        self.store.close()

    def queue(self, id: int) -> QueueState | None:
        """Return a queue whose home this is, even while only the router knows that."""
        arriving = self.core.moving.arriving.get(id)
        return self.core.state.queues.get(id) if arriving is None else arriving.queue

    # What a book-keeper may want to know

    def has_begun(self) -> None:
        """The shard has the router's topology."""
        queues = self.core.state.queues
        self.recovered = {id: queue.contents.ready + queue.contents.unacked for id, queue in queues.items()}

    def was_sent(self, identity: bytes, turn: int, operations: list[Operation], parts: list[Any]) -> None:
        """A turn of an acceptor has arrived."""

    def was_sent_across(self, identity: bytes, turn: int, operations: list[Operation]) -> None:
        """A turn of another shard has arrived."""

    def has_processed(self) -> None:
        """Turns that waited may have been processed."""

    def turn_has_ended(self, turns: list[tuple[bytes, Any]]) -> None:
        """A turn has ended; what it sends goes to these links."""

    def hand_on(self, id: int, other: Shard) -> None:
        """The home of a queue is another shard from now on."""
        other.recovered[id] = self.recovered.pop(id, 0)


def at_once(work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
    """Run `work` without a thread."""
    try:
        work()
    except StoreError as error:
        done(error)
    else:
        done(None)
