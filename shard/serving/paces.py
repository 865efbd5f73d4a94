"""The room of a paced queue, given in turn, by weight, to the acceptors at which publishes wait.

An acceptor reports the weight of its waiters (Paced) and sends no more than it is given (Room), so no acceptor gains by
checking the queue first. Room that was given and is not yet used counts as if its messages were in the queue, so the
queue holds no more than its target. Messages resent to a later incarnation of the shard count in the same way: no room
is given before every acceptor has reported how many it resends.

Shares are remembered to a fraction of a message: where room comes one message at a time, each acceptor has its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.bus import to_acceptor, to_shard
from shard.queue.residence import OPEN

if TYPE_CHECKING:
    from shard.queue.queue_state import QueueState
    from shard.serving.waiters import Waiters
    from shard.turns.link import Link
    from shard.turns.state import ShardState


class Ask:
    """The demand of one acceptor: `weight` of its waiters, `target` depth as seen there, `given` room that is unused,
    and `due`, the messages it is owed beyond that (below 0: it has had too many).
    """

    __slots__ = ("due", "given", "target", "weight")

    def __init__(self) -> None:
        self.weight = self.target = self.given = 0
        self.due = 0.0


class Paces:
    """The pacing of one shard. `asked` is the demand of each acceptor for paced queues, by queue id."""

    def __init__(self, state: ShardState, waiters: Waiters) -> None:
        self.state = state
        self.waiters = waiters
        self.asked: dict[int, dict[Link, Ask]] = {}

    def on_paced(self, link: Link, paced: to_shard.Paced) -> None:
        """Record how much of its room an acceptor has used, and the weight of its waiters; 0: none."""
        id, weight, target, used = paced
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
            self.waiters.on_waiters(link, to_shard.Waiters(id, weight))
        self.state.touch(queue)

    def hand_out(self, queue: QueueState) -> None:
        """At the end of a turn that touched the queue: share out the room that its depth leaves."""
        asks = self.asked.get(queue.id)
        if asks is None or queue.residence is not OPEN:
            return
        if queue.saturation.saturated or self.state.recovery is not None:
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
                    link.turn.add(to_acceptor.Room(queue.id, count))

    def forget_queue(self, id: int) -> None:
        """Forget a queue that was deleted, lives elsewhere, or has come home: acceptors ask again."""
        self.asked.pop(id, None)

    def forget_link(self, link: Link) -> None:
        """An acceptor has died: its room goes to the others."""
        for id, asks in list(self.asked.items()):
            if asks.pop(link, None) is not None:
                self.state.touch(self.state.queues[id])
            if not asks:
                del self.asked[id]


def shared_out(room: int, waiting: list[Ask]) -> dict[Ask, int]:
    """Share out whole messages by weight. The remainder goes to those owed most, and debts are remembered."""
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
