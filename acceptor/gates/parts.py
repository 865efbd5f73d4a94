"""An acceptor's part of a queue's room: by the fair share weight at that acceptor, compared with the others'.

All acceptors have equal parts at most, so that together they never have more in flight than a queue's bound allows. An
acceptor with less weight than another one uses less of its part, in that proportion; and the amounts that acceptors
admit between two stops are proportional to their weights (acceptor/gates/rounds.py). The weights of others may be out
of date: that costs fairness for a moment, never the bound. At a paced queue the shard gives an acceptor its part
(acceptor/gates/pace.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.bus import to_acceptor, to_shard
from penstock.bus.link_stage import UP, LinkStage
from penstock.bus.operations_cy import Operation
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.gates.queue_gate import QueueGate

# A weight is reported again once it has changed by an eighth.
CHANGE = 8


class Shard(Protocol):
    """The link to a shard, as far as operations can be sent to it."""

    @property
    def stage(self) -> LinkStage: ...

    def send(self, operation: Operation) -> None: ...


class Parts:
    """The exchange of weights between one acceptor and the shards. `reported` has the last weight by queue id."""

    def __init__(
        self, index: int, topology: Topology, links: Sequence[Shard], queue_gates: dict[int, QueueGate]
    ) -> None:
        self.index = index
        self.topology = topology
        self.links = links
        self.queue_gates = queue_gates
        self.reported: dict[int, int] = {}

    def report_weights(self, waited_at: Iterable[QueueGate]) -> None:
        """Report the weights at these queues that have changed since the last report; those at others are 0."""
        weights = dict.fromkeys(self.reported, 0)
        weights |= {
            queue_gate.id: weight_of(queue_gate)
            for queue_gate in waited_at
            if not queue_gate.closed and queue_gate.pace is None
        }
        for id, weight in weights.items():
            before = self.reported.get(id, 0)
            if bool(weight) == bool(before) and abs(weight - before) * CHANGE <= max(weight, before):
                continue
            queue, queue_gate = self.topology.queue_by_id(id), self.queue_gates.get(id)
            if queue is None:
                del self.reported[id]
            elif self.links[queue.shard].stage is UP:
                self.links[queue.shard].send(to_shard.Waiters(id, weight))
                if queue_gate is not None:
                    queue_gate.weights.own = weight
                if weight:
                    self.reported[id] = weight
                else:
                    del self.reported[id]

    def on_most_waiters(self, waiters: to_acceptor.MostWaiters) -> None:
        """Receive the largest weight at any acceptor of those sharing a queue's room, and the total."""
        queue_gate = self.queue_gates.get(waiters.queue)
        if queue_gate is not None:
            queue_gate.weights.most, queue_gate.weights.total = waiters.largest, waiters.total

    def ask(self, queue_gate: QueueGate, weight: int, target: int, used: int) -> bool:
        """Report the weight that waits for a paced queue's room, its target, and how much given room was used. Return
        False if the shard cannot be reached at present.
        """
        queue = self.topology.queue_by_id(queue_gate.id)
        if queue is None or self.links[queue.shard].stage is not UP:
            return False
        self.links[queue.shard].send(to_shard.Paced(queue_gate.id, weight, target, used))
        return True

    def given(self, room: to_acceptor.Room) -> None:
        """Receive room at a paced queue."""
        queue_gate = self.queue_gates.get(room.queue)
        if queue_gate is not None and queue_gate.pace is not None:
            queue_gate.pace.given(queue_gate, room.messages)

    def forget(self, shard: int) -> None:
        """A shard has died: report to its next incarnation anew. Room that other shards give is not affected."""
        for id, queue_gate in self.queue_gates.items():
            queue = self.topology.queue_by_id(id)
            if queue is not None and queue.shard == shard:
                self.forget_queue(queue_gate)

    def forget_queue(self, queue_gate: QueueGate) -> None:
        """Forget the weight and room of a queue: its shard does not know them."""
        self.reported.pop(queue_gate.id, None)
        queue_gate.weights.forget()
        if queue_gate.pace is not None:
            queue_gate.pace.forget()


def weight_of(queue_gate: QueueGate) -> int:
    """Return the weight of the channels that share a queue's room here."""
    return queue_gate.rounds.weight(queue_gate) if queue_gate.rounds is not None else queue_gate.waiting.weight
