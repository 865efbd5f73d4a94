"""Delivers ready messages to the consumers of a queue, and drops messages beyond its limits."""

from __future__ import annotations

from penstock.bus import to_acceptor
from shard.queue.queue_state import QueueState
from shard.queue.residence import OPEN
from shard.queue.stalls import Stalls
from shard.serving.leases import Leases
from shard.turns.state import ShardState


class Serving:
    """Serves the queues of one shard, as far as they can be read. An unprivileged queue keeps at most
    `unprivileged_limit` messages.
    """

    def __init__(self, state: ShardState, stalls: Stalls, leases: Leases, unprivileged_limit: int) -> None:
        self.state = state
        self.stalls = stalls
        self.leases = leases
        self.unprivileged_limit = unprivileged_limit

    def serve_now(self, queue: QueueState) -> None:
        """Let earlier operations of the turn take effect before a request that depends on them is answered."""
        self.serve(queue)
        self.state.touch(queue)

    def serve(self, queue: QueueState) -> None:
        """Deliver ready messages and drop the excess, unless the queue cannot be read."""
        self.stalls.attempt(queue, self.state.now, self._hand_out_and_drop)

    def deliver(self, queue: QueueState) -> None:
        """Deliver ready messages, unless the queue cannot be read."""
        self.stalls.attempt(queue, self.state.now, self._hand_out)

    def _hand_out_and_drop(self, queue: QueueState) -> None:
        self._hand_out(queue)
        if self.state.recovery is None and not queue.keeps_back and queue.residence is OPEN:
            queue.drop_excess(self.unprivileged_limit)

    def _hand_out(self, queue: QueueState) -> None:
        """Deliver. Expired messages are dropped before; those that no consumer has credit for may expire after."""
        contents = queue.contents
        if self.state.recovery is not None or queue.residence is not OPEN:
            return
        expires = contents.expiring and not (queue.keeps_back and not queue.ring.consumers)
        if queue.leases:
            self.leases.expire(queue)
        if expires:
            contents.expire(self.state.now)
        if contents.ready and queue.ring.consumers:
            for consumer, item in queue.ring.deliver(contents):
                sent = queue.as_sent(item)
                if sent is not item:
                    consumer.window -= sent.whole - item.whole
                consumer.link.deliver(consumer, sent)
            if queue.ring.starved and contents.ready:
                self._send_hungry(queue)
        if contents.expiring:
            contents.offered()
        if expires:
            contents.expire(self.state.now)

    def _send_hungry(self, queue: QueueState) -> None:
        """Announce to acceptors that consumers lack a grant for messages that are ready."""
        for consumer in queue.ring.starved:
            if not consumer.group.hungry:
                consumer.group.hungry = True
                consumer.link.turn.add(to_acceptor.Hungry(consumer.group.id))
        queue.ring.starved.clear()

    def elect(self, queue: QueueState) -> None:
        """Announce the single active consumer of a queue. During recovery the previous one may still come back."""
        active = queue.ring.active
        if active is not None and not active.elected and self.state.recovery is None and queue.residence is OPEN:
            active.elected = True
            active.link.turn.add(to_acceptor.Elected(active.id))
