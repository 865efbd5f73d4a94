"""Which part of a queue's room an acceptor takes: as many sessions wait at it, against the acceptor with the most.

All acceptors have equal parts at most, so that together they never have more under way than a queue's bound allows.
One at which fewer wait than at another takes less of its own, in that proportion. What it knows of others may be old:
that costs fairness for a moment, never the bound. Of a paced queue each has what its shard gives it (acceptor/pace.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock import bus
from router.topology import Topology

if TYPE_CHECKING:
    from acceptor.inlet import Inlet
    from acceptor.shard_link import ShardLink

# What has changed by less than one in so many is not told again.
CHANGE = 8


class Parts:
    """What was told to shards of the weight of those who wait at queues, and what they said, in one acceptor."""

    def __init__(self, index: int, topology: Topology, links: list[ShardLink], inlets: dict[int, Inlet]) -> None:
        self.index = index
        self.topology = topology
        self.links = links
        self.inlets = inlets
        self.told: dict[int, int] = {}
        self.asked: dict[int, Inlet] = {}

    def tell(self, waited_at: Sequence[Inlet]) -> None:
        """From time to time: how much waits, where it is otherwise than was told."""
        weights = dict.fromkeys(self.told, 0)
        weights |= {inlet.id: inlet.waiting.weight for inlet in waited_at if not inlet.closed and inlet.pace is None}
        for id, weight in weights.items():
            before = self.told.get(id, 0)
            if bool(weight) == bool(before) and abs(weight - before) * CHANGE <= max(weight, before):
                continue
            queue, inlet = self.topology.queue_by_id(id), self.inlets.get(id)
            if queue is None:
                del self.told[id]
            elif self.links[queue.shard].up:
                self.links[queue.shard].tell(bus.WAITERS, id, weight)
                if inlet is not None:
                    inlet.weight = weight
                if weight:
                    self.told[id] = weight
                else:
                    del self.told[id]

    def take(self, kind: int, id: int, count: int) -> None:
        """A shard says something of those who wait at a queue."""
        if kind == bus.ROOM:
            self.given(id, count)
        else:
            self.hear(id, count)

    def hear(self, id: int, most: int) -> None:
        """The largest weight that waits for a queue at any acceptor."""
        inlet = self.inlets.get(id)
        if inlet is not None:
            inlet.most_weight = most

    def ask(self, inlet: Inlet, weight: int, target: int, used: int) -> bool:
        """Tell what waits for the room of a paced queue, of which so much of what was given is used; False if its shard
        cannot be told now.
        """
        queue = self.topology.queue_by_id(inlet.id)
        if queue is None or not self.links[queue.shard].up:
            return False
        self.links[queue.shard].tell(bus.PACED, inlet.id, weight, target, used)
        self.asked[inlet.id] = inlet
        return True

    def given(self, id: int, count: int) -> None:
        """A paced queue has room for so many messages from here."""
        inlet = self.inlets.get(id)
        if inlet is not None and inlet.pace is not None:
            inlet.pace.given(inlet, count)

    def forget(self) -> None:
        """A shard has died, or a queue is another shard's now: it is told anew."""
        for asked in self.asked.values():
            asked.weight = asked.most_weight = 0
            if asked.pace is not None:
                asked.pace.forget()
        self.asked.clear()
        for id in self.told:
            inlet = self.inlets.get(id)
            if inlet is not None:
                inlet.weight = inlet.most_weight = 0
        self.told.clear()
