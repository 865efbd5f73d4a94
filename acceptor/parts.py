"""Which part of a queue's room an acceptor takes: as many sessions wait at it, against the acceptor with the most.

All acceptors have equal parts at most, so that together they never have more under way than a queue's bound allows.
One at which fewer wait than at another takes less of its own, in that proportion. What it knows of others may be old:
that costs fairness for a moment, never the bound.
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
    """What was told to shards of the weight of those who wait at queues, and what they said."""

    def __init__(self, topology: Topology, links: list[ShardLink], inlets: dict[int, Inlet]) -> None:
        self.topology = topology
        self.links = links
        self.inlets = inlets
        self.told: dict[int, int] = {}

    def tell(self, waited_at: Sequence[Inlet]) -> None:
        """From time to time: how much waits, where it is otherwise than was told."""
        weights = dict.fromkeys(self.told, 0)
        weights |= {inlet.id: inlet.waiting.weight for inlet in waited_at if not inlet.closed}
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

    def hear(self, id: int, most: int) -> None:
        """The largest weight that waits for a queue at any acceptor."""
        inlet = self.inlets.get(id)
        if inlet is not None:
            inlet.most_weight = most

    def forget(self) -> None:
        """A shard has died, or a queue is another shard's now: it is told anew."""
        for id in self.told:
            inlet = self.inlets.get(id)
            if inlet is not None:
                inlet.weight = inlet.most_weight = 0
        self.told.clear()
