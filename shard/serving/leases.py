"""Deliveries that outlive who had them: a consumer with `x-lease` leaves what it has in hand to the lease of that id.

    consumer ──goes──▶ lease ──another with that id comes──▶ consumer
                         └──x-lease-end, or it expires──▶ settled, or back in the queue

A lease is filled by its first consumer only. Who comes with its id later gets what it holds, in order, and no more; if
somebody has it in hand, that one's consumer is cancelled. One that is cancelled (basic.cancel) before anything came
leaves a lease of nothing: it has seen all that there is, and whoever reads again is to see the same. What a lease holds
counts as unacked. In a durable queue the store knows leases, so persistent messages are in the same leases in the
shard's next life; a consumer that was there in the last one is filled no further.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import bus
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER
from shard.queue.consumer_cy import Consumer
from shard.queue.lease import Lease
from shard.queue.queue_state import QueueState
from shard.queue.stalls import Stalls
from shard.store.stored import Held
from shard.turns.link import Link
from shard.turns.state import ShardState

RemoveConsumer = Callable[[Link, Consumer, bool], object]
"""Takes a consumer out of its ring; whether what it has in hand goes back."""


class Leases:
    """The leases of the queues of one shard."""

    def __init__(self, state: ShardState, stalls: Stalls) -> None:
        self.state = state
        self.stalls = stalls

    def take_over(self, queue: QueueState, id: str, remove: RemoveConsumer) -> Lease | None:
        """The lease of that id, in nobody's hands; None if there is none, or it holds nothing."""
        lease = queue.leases.get(id)
        if lease is not None and lease.consumer is not None:
            consumer = lease.consumer
            remove(consumer.link, consumer, False)
            consumer.link.turn.operations.append([bus.CANCELLED, consumer.id])
        return queue.leases.get(id)

    def begin(self, queue: QueueState, consumer: Consumer, id: str, lasts: int) -> None:
        """What the consumer will have in hand is leased."""
        lease = queue.leases.setdefault(id, Lease(id, lasts))
        lease.lasts, lease.until, lease.consumer = lasts, NEVER, consumer
        consumer.lease = lease

    def attach(self, link: Link, request: int, queue: QueueState, consumer: Consumer, lease: Lease) -> None:
        """Give what a lease holds to a consumer of it, which gets no more than that."""
        items = []
        try:
            for low, high in lease.held.ranges() if not consumer.again else ():
                items += queue.contents.again(low, high - low)
        except StoreError as error:
            self.stalls.failed(queue, self.state.now, error)
            link.refuse(request, 406, f"{queue} cannot be read")
            return
        self.begin(queue, consumer, lease.id, lease.lasts)
        consumer.cancelled = True
        consumer.hold_all(lease.held)
        link.remember(consumer, consumer.group)
        link.reply(request, consumer.age)
        for item in items:
            link.deliver(consumer, queue.as_sent(item))
        self.state.touch(queue)

    def cancelled(self, consumer: Consumer) -> None:
        """Its client cancels a consumer: nothing comes to it any more, and if nothing has come, that is what it had."""
        lease: Lease = consumer.lease
        lease.empty = lease.empty or not (consumer.outstanding or consumer.settled_at)

    def leave(self, queue: QueueState, consumer: Consumer) -> None:
        """A consumer goes: what it has in hand stays with its lease."""
        lease: Lease = consumer.lease
        consumer.leave_to(lease.held)
        consumer.lease = lease.consumer = None
        if not lease.held and not lease.empty:
            self.drop(queue, lease)
            return
        lease.until = self.state.now + lease.lasts
        self.note(queue, lease, lease.record())

    def end(
        self, link: Link, request: int, queue: QueueState, id: str, how: str, remove: RemoveConsumer
    ) -> None:  # fmt: skip
        """All that a lease holds is acked, or goes back to the queue; answered when a later life would know it."""
        lease = self.take_over(queue, id, remove)
        if lease is not None:
            for low, high in lease.held.ranges():
                if how == "ack":
                    queue.contents.settle(low, high - low)
                else:
                    queue.contents.requeue(low, high - low)
            self.drop(queue, lease)
            self.state.touch(queue)
        link.reply_when_safe(request, 0)

    def expire(self, queue: QueueState) -> None:
        """Whom nobody came back for in time."""
        for lease in [lease for lease in queue.leases.values() if lease.until <= self.state.now]:
            for low, high in lease.held.ranges():
                queue.contents.requeue(low, high - low)
            self.drop(queue, lease)

    def recover(self, queue: QueueState, id: str, held: Held) -> None:
        """A lease of an earlier life, with what is still there of what it held."""
        lasts, until, ranges = held
        lease = queue.leases[id] = Lease(id, lasts)
        lease.until = until
        lease.empty = not ranges
        for sequence, count in ranges:
            for low, part in queue.contents.claim(sequence, count):
                lease.held.add(low, part)
        if not lease.held and not lease.empty:
            self.drop(queue, lease)

    def drop(self, queue: QueueState, lease: Lease) -> None:
        """A lease is no more."""
        del queue.leases[lease.id]
        self.note(queue, lease, None)

    def forget(self, queue: QueueState) -> None:
        """The queue is no more."""
        for lease in list(queue.leases.values()):
            self.drop(queue, lease)

    def note(self, queue: QueueState, lease: Lease, record: bytes | None) -> None:
        if self.state.journal is not None and queue.contents.durable:
            self.state.journal.hold(queue.id, lease.id, record)
