"""The gate of a queue that moves (acceptor/moving/moving.py)."""

from __future__ import annotations

from acceptor.gates.cause import HoldCause
from acceptor.gates.shut_gate import ShutGate
from router.model.records import Move, Queue, described


class MoveGate(ShutGate):
    """The gate of one move: no publish passes until the queue is at home again, old or new."""

    def __init__(self, move: Move, queue: Queue) -> None:
        super().__init__()
        self.move = move
        self.queue = queue

    def __str__(self) -> str:
        queue = described("queue", self.queue.name, self.queue.vhost)
        return f"{queue}: rebalance, it moves from shard {self.move.source} to shard {self.move.target}"

    def describe(self) -> HoldCause:
        """Describe the move: from `source` to `target`, indexes of shards."""
        queue, move = self.queue, self.move
        facts = {
            "vhost": queue.vhost, "name": queue.name, "id": queue.queue_id, "source": move.source,
            "target": move.target,
        }  # fmt: skip
        return HoldCause("rebalance", str(self), str(queue), "rebalance", shard=move.source, facts=facts)
