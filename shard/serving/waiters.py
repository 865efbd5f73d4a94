"""How many share the room of a queue at each acceptor: each acceptor is to have no more than its part.

An acceptor tells the weight of those who share it there (WAITERS), and hears the largest that any acceptor has, and
that of all (MOST_WAITERS). That is advice: the bounds of what may be under way do not depend on it (acceptor/inlet.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import bus

if TYPE_CHECKING:
    from shard.turns.link import Link
    from shard.turns.state import ShardState


class Waiters:
    """`weights` is what acceptors have told of the queues of one shard, by queue id."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.weights: dict[int, dict[Link, int]] = {}

    def hear(self, link: Link, id: int, weight: int) -> None:
        """An acceptor has so much waiting for a queue; 0: nobody any more."""
        if id not in self.state.queues or not link.is_acceptor:
            return
        before, weights = self.all(id), self.weights.setdefault(id, {})
        weights.pop(link, None)
        if weight:
            weights[link] = weight
        self.tell(link, id)
        if self.all(id) != before:
            self.tell_others(link, id)
        if not weights:
            del self.weights[id]

    def weight(self, link: Link, id: int) -> int:
        return self.weights.get(id, {}).get(link, 0)

    def all(self, id: int) -> tuple[int, int]:
        """The largest weight that waits for a queue at any acceptor, and that at all of them."""
        weights = self.weights.get(id, {}).values()
        return max(weights, default=0), sum(weights)

    def tell(self, link: Link, id: int) -> None:
        link.turn.operations.append([bus.MOST_WAITERS, id, *self.all(id)])

    def tell_all(self, link: Link) -> None:
        """An acceptor has come: what others wait for is not for it alone."""
        for id in self.weights:
            self.tell(link, id)

    def tell_others(self, link: Link, id: int) -> None:
        for other in self.state.links.values():
            if other is not link and other.is_acceptor:
                self.tell(other, id)

    def forget_queue(self, id: int) -> None:
        """The queue is gone, or another shard's."""
        self.weights.pop(id, None)

    def forget_link(self, link: Link) -> None:
        """An acceptor has died."""
        for id in [id for id, weights in self.weights.items() if link in weights]:
            self.hear(link, id, 0)
