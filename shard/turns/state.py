"""What all parts of a shard work on: its queues, its links, its time, and what it knows of the node.

Each part does one thing with it and knows nothing of the others but those it is given. What a part has changed it
touches: at the end of the turn the core delivers, weighs and decides flow for the queues that were touched.
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

LIFE_BITS = 36
LIVES = 4096
"""Messages of a queue in one life of the shard, and how many lives there may be until numbers come again."""

RouterRequest = tuple[str, dict[str, Any], Callable[[Any, Any], None]]
"""Operation, arguments, and who is called with result and error."""


class ShardState:
    """`now` is the time of what is being taken in by the node's clock, `wall_ahead` how far the wall clock is ahead of
    it (`penstock.node.clock`), both in microseconds; whoever drives the shard sets them. `version` is that of the
    topology, -1 before it is known. `recovery` is there in a later life until it is known what is in the hands of
    consumers. `dead` is the last life of each process that has died, by role and index. `weight` is what contents take
    in memory, octets. `router_requests` are to be sent with the turn. `incarnation` is the life of the process;
    `base` begins the numbers of messages in this life of the store.
    """

    def __init__(self, index: int, gauges: Gauges, now: int, life: int = 0, journal: Journal | None = None) -> None:
        self.index = index
        self.incarnation = 1
        self.gauges = gauges
        self.journal = journal
        self.base = (life % LIVES) << LIFE_BITS
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
        """Something has changed that the end of the turn is to follow up."""
        self.touched[queue.id] = queue

    def weigh(self, queue: QueueState, weight: int) -> None:
        """What a queue takes in memory by now, octets."""
        self.weight += weight - queue.weighed
        queue.weighed = weight

    def make_queue(self, record: Record) -> QueueState:
        """A queue of this shard as the topology has it, with nothing in it."""
        return QueueState(record, self.now, self.base, self.journal)
