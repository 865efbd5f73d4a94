"""An acceptor's part of a queue's room: by the fair share weight at that acceptor, compared with the others'.

All acceptors have equal parts at most, so that together they never have more in flight than a queue's bound allows. An
acceptor with less weight than another one uses less of its part, in that proportion; and the amounts that acceptors
admit between two stops are proportional to their weights (acceptor/gates/rounds.py). The weights of others may be out
of date: that costs fairness for a moment, never the bound. At a paced queue the shard gives an acceptor its part
(acceptor/gates/pace.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock import bus
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.gates.inlet import Inlet

# A weight that has changed by less than one in so many is not reported again.
CHANGE = 8


class Shard(Protocol):
    """The link to a shard, as far as it can be told something."""

    @property
    def up(self) -> bool: ...

    def tell(self, *operation: Any) -> None: ...


class Parts:
    """The exchange of weights between one acceptor and the shards. `told` has the weight last reported, by queue id."""

    def __init__(self, index: int, topology: Topology, links: Sequence[Shard], inlets: dict[int, Inlet]) -> None:
        self.index = index
        self.topology = topology
        self.links = links
        self.inlets = inlets
        self.told: dict[int, int] = {}

    def tell(self, waited_at: Iterable[Inlet]) -> None:
        """Report the weights at these queues that have changed since the last report; those at others are 0."""
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
        """Handle MOST_WAITERS or ROOM of a shard."""
        if kind == bus.ROOM:
            self.given(id, *counts)
        else:
            self.hear(id, *counts)

    def hear(self, id: int, most: int, total: int) -> None:
        """Receive the largest weight at any acceptor of those sharing a queue's room, and the total."""
        inlet = self.inlets.get(id)
        if inlet is not None:
            inlet.most_weight, inlet.all_weight = most, total

    def ask(self, inlet: Inlet, weight: int, target: int, used: int) -> bool:
        """Report the weight that waits for a paced queue's room, its target, and how much given room was used. Return
        False if the shard cannot be reached at present.
        """
        queue = self.topology.queue_by_id(inlet.id)
        if queue is None or not self.links[queue.shard].up:
            return False
        self.links[queue.shard].tell(bus.PACED, inlet.id, weight, target, used)
        return True

    def given(self, id: int, count: int) -> None:
        """Receive room at a paced queue for so many messages."""
        inlet = self.inlets.get(id)
        if inlet is not None and inlet.pace is not None:
            inlet.pace.given(inlet, count)

    def forget(self, shard: int) -> None:
        """A shard has died: report to its next incarnation anew. Room that other shards give is not affected."""
        for id, inlet in self.inlets.items():
            queue = self.topology.queue_by_id(id)
            if queue is not None and queue.shard == shard:
                self.forget_queue(inlet)

    def forget_queue(self, inlet: Inlet) -> None:
        """Forget the weight and room of a queue: its shard does not know them."""
        self.told.pop(inlet.id, None)
        inlet.weight = inlet.most_weight = inlet.all_weight = 0
        if inlet.pace is not None:
            inlet.pace.forget()


def weight_of(inlet: Inlet) -> int:
    """Return the weight of the channels that share a queue's room here."""
    return inlet.rounds.weight(inlet) if inlet.rounds is not None else inlet.waiting.weight
