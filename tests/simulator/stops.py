"""Watches that nothing enters a queue whose publishes an operator has stopped (docs/flow-control.md)."""

from __future__ import annotations

from functools import partial

from router.model.records import Stop
from tests.simulator.engine import Engine
from tests.simulator.plan import DEAD

POLL_SECONDS = 0.005
Counts = dict[int, tuple[int, int, int, int]]
"""By queue id: the epoch, its shard, the incarnation of that, and how many messages have entered the queue in it."""


class StopWatch:
    """The stops of a node. `since` has what had entered the queues of each when all acceptors knew of it, and nothing
    was in flight any more.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.node = engine.node
        self.since: dict[int, Counts] = {}

    def begins(self, number: int) -> None:
        """Watch a new stop."""
        self.engine.timeline.after(POLL_SECONDS, partial(self.poll, number))

    def poll(self, number: int) -> None:
        """Begin to count once everything that was published before the stop has arrived."""
        stop = self.node.router.topology.stops.get(number)
        if stop is None:
            return
        commits = any(channel.running is not None and not channel.runs_at_gates() for channel in self.node.channels())
        prepared = any(shard.core.two_phase.parts for _, shard in self.node.running_shards())
        hung = any(self.engine.hung(("shard", index)) for index, _ in self.node.running_shards())
        on_the_way = commits or prepared or hung or any(self.node.last_words.values())
        for _, acceptor in self.node.running_acceptors():
            on_the_way |= any(link.sent or link.turn.contents.load.count for link in acceptor.core.links)
            on_the_way |= acceptor.core.topology.stops.get(number) != stop  # an earlier one may have had its number
        if on_the_way:
            self.engine.timeline.after(POLL_SECONDS, partial(self.poll, number))
        else:
            self.since[number] = self.entered(stop)

    def entered(self, stop: Stop) -> Counts:
        """Return what has entered the queues of a stop. Dead letters may enter at any time, and so may messages
        that were delayed before it.
        """
        plan, counts = self.engine.plan, {}
        fed = {DEAD, *(queue.name for queue in plan.queues if queue.bound and plan.delays)}
        for index, shard in self.node.running_shards():
            for queue in shard.core.state.queues.values():
                if stop.queue in (None, queue.name) and queue.name not in fed:
                    counts[queue.id] = self.node.epoch, index, shard.incarnation, queue.contents.totals.published
        return counts

    def ends(self, number: int) -> None:
        """Check that nothing has entered a queue since the stop was known. One of an exchange stops nothing that comes
        through another; all others concern guest, who alone publishes to these queues.
        """
        stop = self.node.router.topology.stops.get(number)
        before = self.since.pop(number, None)
        if stop is None or before is None or stop.exchange is not None:
            return
        now = self.entered(stop)
        for queue_id in before.keys() & now.keys():
            same_home = before[queue_id][:3] == now[queue_id][:3]
            assert not same_home or before[queue_id] == now[queue_id], f"{stop} lets {queue_id} in: {before}, {now}"
