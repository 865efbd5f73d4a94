"""How many producers share the room of a queue at each acceptor, so that each acceptor takes no more than its part.

An acceptor reports the total weight of its waiters (Waiters) and receives the largest weight at any acceptor and the
weight at all of them (MostWaiters). This is advice: the bounds of messages in flight do not depend on it
(acceptor/gates/queue_gate.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bus import to_acceptor, to_shard

if TYPE_CHECKING:
    from shard.turns.link import Link
    from shard.turns.state import ShardState


class Waiters:
    """The waiters of one shard's queues. `weights` is the weight that each acceptor reported, by queue id."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.weights: dict[int, dict[Link, int]] = {}

    def on_waiters(self, link: Link, waiters: to_shard.Waiters) -> None:
        """An acceptor reports the weight of its waiters for a queue; 0: none."""
        id, weight = waiters
        if id not in self.state.queues or not link.is_acceptor:
            return
        before, weights = self.totals(id), self.weights.setdefault(id, {})
        weights.pop(link, None)
        if weight:
            weights[link] = weight
        self.send(link, id)
        if self.totals(id) != before:
            self.send_others(link, id)
        if not weights:
            del self.weights[id]

    def weight(self, link: Link, id: int) -> int:
        """The weight last reported by an acceptor; 0 for none."""
        return self.weights.get(id, {}).get(link, 0)

    def totals(self, id: int) -> tuple[int, int]:
        """The largest weight that waits for a queue at any acceptor, and the weight at all of them."""
        weights = self.weights.get(id, {}).values()
        return max(weights, default=0), sum(weights)

    def send(self, link: Link, id: int) -> None:
        """Send MostWaiters of a queue to an acceptor."""
        link.turn.add(to_acceptor.MostWaiters(id, *self.totals(id)))

    def send_all(self, link: Link) -> None:
        """A new acceptor: send it the waiters of all queues, since it shares their room."""
        for id in self.weights:
            self.send(link, id)

    def send_others(self, link: Link, id: int) -> None:
        """Send MostWaiters of a queue to all acceptors but one."""
        for other in self.state.links.values():
            if other is not link and other.is_acceptor:
                self.send(other, id)

    def forget_queue(self, id: int) -> None:
        """Forget a queue that was deleted or lives on another shard."""
        self.weights.pop(id, None)

    def forget_link(self, link: Link) -> None:
        """An acceptor has died: its waiters are gone."""
        for id in [id for id, weights in self.weights.items() if link in weights]:
            self.on_waiters(link, to_shard.Waiters(id, 0))
