"""Deliveries that outlive their consumer: one with `x-lease` leaves its unacked messages to the lease of that id.

    consumer ──goes──▶ lease ──another with that id comes──▶ consumer
                         └──x-lease-end, or it expires──▶ settled, or back in the queue

Only the first consumer of a lease fills it. A later consumer with the same id gets the messages of the lease, in order,
and no others; if an earlier consumer still has them, that consumer is cancelled. A consumer cancelled by basic.cancel
before it received anything leaves an empty lease: it has seen all there was, and a repeated read must see the same. The
messages of a lease count as unacked. In a durable queue the store records leases, so persistent messages are in the
same leases in the shard's next incarnation; a consumer that was attached in the last one is filled no further. If that
consumer has a message that its shard had not stored, it is cancelled: the message comes again, outside the lease, and a
read must not be taken for whole with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from penstock.batch.settlement_rows import ROW, SETTLE_REQUEUE
from penstock.bus import to_acceptor
from shard.contents.errors import StoreError
from shard.contents.queue_cy import NEVER
from shard.contents.segment_cy import Range
from shard.queue.consumer_cy import Consumer
from shard.queue.lease import Lease
from shard.queue.queue_state import QueueState
from shard.queue.stalls import Stalls
from shard.store.stored import Held, unpack_held
from shard.turns.link import Link
from shard.turns.state import ShardState

RemoveConsumer = Callable[[Link, Consumer, bool], object]
"""Removes a consumer from its ring; the flag says whether its unacked messages are requeued."""


class Leases:
    """The leases of the queues of one shard. `when_written` runs an action once all changes so far are stored."""

    def __init__(self, state: ShardState, stalls: Stalls, when_written: Callable[[Callable[[], None]], None]) -> None:
        self.state = state
        self.stalls = stalls
        self.when_written = when_written

    def take_over(self, queue: QueueState, id: str, remove: RemoveConsumer) -> Lease | None:
        """Detach a lease from its consumer, which is cancelled, and return it; None if there is none or it holds
        nothing.
        """
        lease = queue.leases.get(id)
        if lease is not None and lease.consumer is not None:
            self.cancel(lease.consumer, remove)
        return queue.leases.get(id)

    def cancel(self, consumer: Consumer, remove: RemoveConsumer) -> None:
        """Cancel a consumer that has a lease; the lease keeps the unacked messages."""
        remove(consumer.link, consumer, False)
        consumer.link.turn.add(to_acceptor.Cancelled(consumer.id))

    def begin(self, queue: QueueState, consumer: Consumer, id: str, lasts: int) -> None:
        """Lease the deliveries of a consumer from here on."""
        lease = queue.leases.setdefault(id, Lease(id, lasts))
        lease.lasts, lease.until, lease.consumer = lasts, NEVER, consumer
        consumer.lease = lease

    def attach(self, link: Link, request: int, queue: QueueState, consumer: Consumer, lease: Lease) -> None:
        """Deliver the messages of a lease to a consumer, which gets no others."""
        try:
            items = [] if consumer.again else self.read(queue, lease)
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

    def read(self, queue: QueueState, lease: Lease) -> list[Range]:
        """Return the messages of a lease; damaged ones are set aside. Raises StoreError if they cannot be read."""
        contents = queue.contents
        while True:
            try:
                return contents.again(lease.held)
            except StoreError as error:
                if not self.stalls.go_on_without(queue, error, lambda: contents.drop_damaged_unacked(lease.held)):
                    raise

    def hand_out(self, rows: bytes, holders: Mapping[int, Consumer]) -> None:
        """Let those who stand for consumers that are gone have the leases of their deliveries, until they go too: what
        these consumers settled comes only now. Rows as of Hold.
        """
        if not any(holder.queue.owner.leases for holder in holders.values()):
            return
        for id, sequence, count, _ in ROW.iter_unpack(rows):
            holder = holders.get(id)
            if holder is None or holder.lease is not None:
                continue
            queue: QueueState = holder.queue.owner
            for lease in queue.leases.values():
                if lease.consumer is None and lease.held.meets(sequence, sequence + count):
                    self.begin(queue, holder, lease.id, lease.lasts)
                    holder.hold_all(lease.held)
                    break

    def cancelled(self, consumer: Consumer) -> None:
        """Note that a client cancels a consumer: no more deliveries; if there were none, the lease is an empty one."""
        lease: Lease = consumer.lease
        lease.empty = lease.empty or not (consumer.outstanding or consumer.settled_at)

    def leave(self, queue: QueueState, consumer: Consumer) -> None:
        """A consumer goes: move its unacked messages to its lease."""
        lease: Lease = consumer.lease
        consumer.leave_to(lease.held)
        consumer.lease = lease.consumer = None
        if not lease.held and not lease.empty:
            self.drop(queue, lease)
            return
        lease.until = self.state.now + lease.lasts
        self.store_record(queue, lease, lease.record())

    def end(
        self, link: Link, request: int, queue: QueueState, id: str, how: str, remove: RemoveConsumer
    ) -> None:  # fmt: skip
        """Ack or requeue all messages of a lease, and reply once a later incarnation would know it."""
        lease = self.take_over(queue, id, remove)
        if lease is not None:
            for low, high in lease.held.ranges():
                if how == "ack":
                    queue.contents.settle(low, high - low)
                else:
                    queue.contents.requeue(low, high - low)
            self.drop(queue, lease)
            self.state.touch(queue)
        self.reply_when_written(link, request, 0)

    def reply_when_written(self, link: Link, request: int, result: int | None) -> None:
        """Reply once a later incarnation would know what a request has changed; its turn may be safe before that, as
        requests wait while their queue comes home.
        """
        self.when_written(partial(link.reply, request, result))

    def expire(self, queue: QueueState) -> None:
        """Requeue the messages of leases that have expired."""
        for lease in [lease for lease in queue.leases.values() if lease.until <= self.state.now]:
            for low, high in lease.held.ranges():
                queue.contents.requeue(low, high - low)
            self.drop(queue, lease)

    def recover(self, queue: QueueState, id: str, held: Held) -> None:
        """Restore a lease of an earlier incarnation with those of its messages that still exist."""
        lasts, until, ranges = held
        lease = queue.leases[id] = Lease(id, lasts)
        lease.until = until
        lease.empty = not ranges
        for sequence, count in ranges:
            for low, part in queue.contents.claim(sequence, count):
                lease.held.add(low, part)
        if not lease.held and not lease.empty:
            self.drop(queue, lease)

    def adopt(self, queue: QueueState, id: str, record: bytes) -> None:
        """Restore a lease of another shard from its record, and store it here."""
        self.recover(queue, id, unpack_held(record))
        if id in queue.leases:
            self.store_record(queue, queue.leases[id], record)

    def drop(self, queue: QueueState, lease: Lease) -> None:
        """Delete a lease, here and in the store."""
        del queue.leases[lease.id]
        self.store_record(queue, lease, None)

    def forget(self, queue: QueueState) -> None:
        """The queue is gone: delete its leases."""
        for lease in list(queue.leases.values()):
            self.drop(queue, lease)

    def store_record(self, queue: QueueState, lease: Lease, record: bytes | None) -> None:
        """Record a lease in the store if its queue is durable; None deletes it there. That of another queue is recorded
        when the shard hands over (shard/handing_over.py).
        """
        if self.state.journal is not None and (record is None or queue.contents.durable):
            self.state.journal.put_lease(queue.id, lease.id, record)


def lacking(rows: bytes, consumers: Mapping[int, Consumer]) -> list[Consumer]:
    """Return the consumers with a lease that do not have all of their earlier deliveries; rows as of Hold."""
    leased = {id: consumer for id, consumer in consumers.items() if consumer.lease is not None}
    found: dict[Consumer, None] = {}
    for id, sequence, count, kind in ROW.iter_unpack(rows) if leased else ():
        consumer = leased.get(id)
        if consumer is not None and kind != SETTLE_REQUEUE:
            ranges = consumer.outstanding.ranges()
            held = sum(max(min(high, sequence + count) - max(low, sequence), 0) for low, high in ranges)
            if held < count:
                found[consumer] = None
    return list(found)
