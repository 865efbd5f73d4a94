"""The state that all parts of a shard work on: its queues, its links, its time, and its replica of the topology.

Each part does one thing with the state and knows only those other parts that it is given. A part touches each queue it
has changed: at the end of the turn the core delivers, weighs and decides flow for the queues that were touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.memory.gauges import Gauges
from router.model.records import Queue as Record
from router.model.topology import Topology
from shard.queue.queue_state import QueueState
from shard.store.journal import Journal
from shard.turns.link import Link
from shard.turns.recovery import Recovery

START_BITS = 36
STARTS_MAX = 4096
"""Bits of a message's number within one incarnation of the shard, and how many incarnations pass before numbers repeat.
"""

RouterRequest = tuple[str, dict[str, Any], Callable[[Any, Any], None]]
"""Operation, arguments, and the callback that gets result and error."""


class ShardState:
    """The shared state of one shard.

    `now` is the time by the node's clock of the turns being applied, and `wall_ahead` how far the wall clock is ahead
    of it (`penstock.node.clock`), both in microseconds; the driver of the shard sets them. `version` is that of the
    topology, -1 before it is known. `recovery` exists in a later incarnation until all unacked messages are known.
    `dead` is the last incarnation of each process that has died, by role and index. `weight` is the memory that
    contents take, in bytes. `router_requests` are to be sent with the turn. `incarnation` is that of the process;
    `base` begins the numbers of messages in this incarnation of the store.
    """

    def __init__(self, index: int, gauges: Gauges, now: int, starts: int = 0, journal: Journal | None = None) -> None:
        self.index = index
        self.incarnation = 1
        self.gauges = gauges
        self.journal = journal
        self.base = (starts % STARTS_MAX) << START_BITS
        self.now = now
        self.wall_ahead = 0
        self.version = -1
        self.topology = Topology()
        self.queues: dict[int, QueueState] = {}
        self.touched: dict[int, QueueState] = {}
        self.links: dict[bytes, Link] = {}
        self.dead: dict[tuple[str, int], int] = {}
        self.recovery: Recovery | None = None
        self.router_requests: list[RouterRequest] = []
        self.weight = 0

    def wall_seconds(self) -> int:
        """Whole seconds since 1970, for people and clients."""
        return (self.now + self.wall_ahead) // 1_000_000

    def touch(self, queue: QueueState) -> None:
        """Have the end of the turn follow up a change of a queue."""
        self.touched[queue.id] = queue

    def weigh(self, queue: QueueState, weight: int) -> None:
        """Set the memory that a queue takes, in bytes."""
        self.weight += weight - queue.weighed
        queue.weighed = weight

    def make_queue(self, record: Record) -> QueueState:
        """An empty queue of this shard, as the topology declares it."""
        return QueueState(record, self.now, self.base, self.journal)
