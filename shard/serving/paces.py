"""The room of a paced queue, given to the acceptors at which somebody waits for it, in turn and by their weights.

An acceptor says who waits (PACED) and sends no more than it is given (ROOM): the one that would look first goes before
nobody. What was given and has not come counts as if it were in the queue, so the queue holds no more than its target.
So does what acceptors send again to a later life of the shard: nothing is given before all have said how much that is.

What has been shared out is remembered to a fraction of a message: where there is room for one at a time, each has it in
its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import bus

if TYPE_CHECKING:
    from shard.queue.queue_state import QueueState
    from shard.serving.waiters import Waiters
    from shard.turns.link import Link
    from shard.turns.state import ShardState


class Ask:
    """What waits at an acceptor: its weight, the target as seen there, what it was given and has not used, what it is
    due beyond that (below 0: has had too much).
    """

    __slots__ = ("due", "given", "target", "weight")

    def __init__(self) -> None:
        self.weight = self.target = self.given = 0
        self.due = 0.0


class Paces:
    """`asked` is what acceptors have said of the paced queues of one shard, by queue id."""

    def __init__(self, state: ShardState, waiters: Waiters) -> None:
        self.state = state
        self.waiters = waiters
        self.asked: dict[int, dict[Link, Ask]] = {}

    def hear(self, link: Link, id: int, weight: int, target: int, used: int) -> None:
        """An acceptor has used up so much of what it was given, and so much waits there now; 0: nobody any more.

        With `used` below 0 what it was given is void, but for ~used messages that it still sends.
        """
        queue = self.state.queues.get(id)
        if queue is None or not link.is_acceptor:
            return
        asks = self.asked.setdefault(id, {})
        ask = asks.get(link)
        if ask is None:
            ask = asks[link] = Ask()
        ask.given = ~used if used < 0 else max(ask.given - used, 0)
        ask.weight, ask.target = weight, target
        if self.waiters.weight(link, id) != weight:
            self.waiters.hear(link, id, weight)
        self.state.touch(queue)

    def hand_out(self, queue: QueueState) -> None:
        """At the end of a turn that touched the queue: what its depth leaves room for."""
        asks = self.asked.get(queue.id)
        if asks is None or queue.frozen or queue.saturation.saturated or self.state.recovery is not None:
            return
        if not queue.features.paced:
            del self.asked[queue.id]
            return
        waiting = [ask for ask in asks.values() if ask.weight]
        if not waiting:
            return
        room = max(ask.target for ask in waiting) - queue.depth - sum(ask.given for ask in asks.values())
        if room > 0:
            shares = shared_out(room, waiting)
            for link, ask in asks.items():
                count = shares.get(ask, 0)
                if count:
                    ask.given += count
                    link.turn.operations.append([bus.ROOM, queue.id, count])

    def forget_queue(self, id: int) -> None:
        """The queue is gone, or another shard's, or at home again: acceptors ask anew."""
        self.asked.pop(id, None)

    def forget_link(self, link: Link) -> None:
        """An acceptor has died: what it was given is for the others."""
        for id, asks in list(self.asked.items()):
            if asks.pop(link, None) is not None:
                self.state.touch(self.state.queues[id])
            if not asks:
                del self.asked[id]


def shared_out(room: int, waiting: list[Ask]) -> dict[Ask, int]:
    """So many messages by weight, whole ones; what is left over is for who is due most, and is remembered."""
    total, most = sum(ask.weight for ask in waiting), len(waiting)
    for ask in waiting:
        ask.due = min(ask.due, most) + room * ask.weight / total
    left, shares = room, {}
    for ask in sorted(waiting, key=_due, reverse=True):
        shares[ask] = min(max(int(ask.due), 0), left)
        ask.due = max(ask.due - shares[ask], -most)
        left -= shares[ask]
    while left:
        for ask in sorted(waiting, key=_due, reverse=True)[:left]:
            shares[ask] += 1
            ask.due -= 1
            left -= 1
    return shares


def _due(ask: Ask) -> float:
    return ask.due
