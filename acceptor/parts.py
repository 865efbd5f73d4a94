"""Which part of a queue's room an acceptor takes: by the weight of those who share it there, against the other ones'.

All acceptors have equal parts at most, so that together they never have more under way than a queue's bound allows.
One at which fewer share it than at another takes less of its own, in that proportion; and what each lets in between two
stops is in proportion to that at all (acceptor/rounds.py). What it knows of others may be old:
that costs fairness for a moment, never the bound. Of a paced queue each has what its shard gives it (acceptor/pace.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock import bus
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.inlet import Inlet
    from acceptor.shard_link import ShardLink

# What has changed by less than one in so many is not told again.
CHANGE = 8


class Parts:
    """What one acceptor told shards of the weight of those who share the room of queues, and what they said."""

    def __init__(self, index: int, topology: Topology, links: list[ShardLink], inlets: dict[int, Inlet]) -> None:
        self.index = index
        self.topology = topology
        self.links = links
        self.inlets = inlets
        self.told: dict[int, int] = {}

    def tell(self, waited_at: Iterable[Inlet]) -> None:
        """From time to time: how much that is, where it is otherwise than was told."""
        weights = dict.fromkeys(self.told, 0)
        weights |= {inlet.id: weight_of(inlet) for inlet in waited_at if not inlet.closed and inlet.pace is None}
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

    def take(self, kind: int, id: int, *counts: int) -> None:
        """A shard says something of those who share the room of a queue."""
        if kind == bus.ROOM:
            self.given(id, *counts)
        else:
            self.hear(id, *counts)

    def hear(self, id: int, most: int, total: int) -> None:
        """The largest weight that shares the room of a queue at any acceptor, and that of all."""
        inlet = self.inlets.get(id)
        if inlet is not None:
            inlet.most_weight, inlet.all_weight = most, total

    def ask(self, inlet: Inlet, weight: int, target: int, used: int) -> bool:
        """Tell what waits for the room of a paced queue, of which so much of what was given is used; False if its shard
        cannot be told now.
        """
        queue = self.topology.queue_by_id(inlet.id)
        if queue is None or not self.links[queue.shard].up:
            return False
        self.links[queue.shard].tell(bus.PACED, inlet.id, weight, target, used)
        return True

    def given(self, id: int, count: int) -> None:
        """A paced queue has room for so many messages from here."""
        inlet = self.inlets.get(id)
        if inlet is not None and inlet.pace is not None:
            inlet.pace.given(inlet, count)

    def forget(self, shard: int) -> None:
        """A shard has died: its next life is told anew. What others have given is on its way, and counts."""
        for id, inlet in self.inlets.items():
            queue = self.topology.queue_by_id(id)
            if queue is not None and queue.shard == shard:
                self.forget_queue(inlet)

    def forget_queue(self, inlet: Inlet) -> None:
        """The shard of a queue knows nothing of what was told of it."""
        self.told.pop(inlet.id, None)
        inlet.weight = inlet.most_weight = inlet.all_weight = 0
        if inlet.pace is not None:
            inlet.pace.forget()


def weight_of(inlet: Inlet) -> int:
    """Of those who share a queue's room here."""
    return inlet.rounds.weight(inlet) if inlet.rounds is not None else inlet.waiting.weight
