"""Requests of acceptors for their consumers: attach, settle, limit, pause and end them, and get.

Consumers and gets belong to the link of their acceptor (shard/turns/link.py); the queue decides the order of service
(shard/queue/dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation
from penstock.settings import Settings
from shard.contents.queue_cy import Queue
from shard.contents.segment_cy import Range
from shard.queue.consumer_cy import Consumer, Group, hand_over_rows, hold_rows, settle_rows
from shard.queue.deletion import Stage
from shard.queue.dispatch import Ring
from shard.queue.hands import Hands
from shard.queue.lease import Lease
from shard.queue.lending import lending_of
from shard.queue.outlet_cy import Outlet
from shard.queue.queue_state import QueueState
from shard.queue.stalls import Stalls
from shard.serving.deleting import Deletions
from shard.serving.homing import Homings
from shard.serving.leases import Leases, lacking
from shard.serving.serving import Serving
from shard.turns.checking import Checking, checks_first
from shard.turns.link import Link
from shard.turns.reserved import release
from shard.turns.state import ShardState


class Consuming:
    """The operations of class basic on the queues of one shard.

    `window` is the number of bytes that a new consumer may be sent, `connection_window` that of all consumers of a
    connection together.
    """

    def __init__(
        self, state: ShardState, serving: Serving, stalls: Stalls, leases: Leases, homings: Homings,
        deletions: Deletions, settings: Settings,
    ) -> None:  # fmt: skip
        self.state = state
        self.serving = serving
        self.stalls = stalls
        self.leases = leases
        self.homings = homings
        self.deletions = deletions
        self.settings = settings
        self.window = settings.flow.consumer_window_bytes
        self.connection_window = settings.flow.connection_window_bytes
        self.last_age = 0
        self.weighs = settings.amqp.unacked_bytes > 0 or settings.limits.user_unacked_bytes >= 0
        self.hands = Hands(settings.limits, settings.shards)
        self.grants: list[tuple[Link, Group, int]] = []
        self.operations: dict[type[Operation], Callable[[Link, Any], None]] = {
            to_shard.Window: self.open_window,
            to_shard.Consume: self.consume,
            to_shard.Cancel: self.cancel,
            to_shard.Get: self.get,
            to_shard.Limit: self.limit,
            to_shard.Unacked: self.limit_bytes,
            to_shard.Grant: self.grant,
            to_shard.Active: self.set_active,
            to_shard.Prefetch: self.set_prefetch,
            to_shard.Gone: self.end_channel,
        }

    @checks_first
    def consume(self, link: Link, consume: to_shard.Consume) -> Checking:
        """Attach a consumer, or end a lease."""
        queue, request = self.state.queues.get(consume.queue), consume.request
        lease, exclusive = consume.lease, consume.exclusive
        if queue is None or queue.deletion.stage is not Stage.KEPT:
            link.refuse(request, 404, "no such queue")
            return
        channel = link.groups.get(consume.group) or self.new_group(consume.group)
        consumer = self.consumer_of(link, queue, channel, consume)
        again = consumer.again
        yield
        if not again and self.homings.defers(queue, link, partial(self.consume, link, consume), consume.group):
            return
        known = None
        if lease is not None:
            self.serving.serve_now(queue)
            if lease[2]:
                self.leases.end(link, request, queue, lease[0], lease[2], self.remove_consumer)
                return
            known = self.leases.take_over(queue, lease[0], self.remove_consumer)
            if again and known is None:
                known = Lease(lease[0], lease[1])
        rivals = self.rivals(queue, exclusive)
        if (exclusive and queue.ring.single) or (rivals and not (again and all(not rival.again for rival in rivals))):
            link.refuse(request, 403, f"{queue} in exclusive use")
            return
        self.serving.serve_now(queue)
        link.groups[consume.group] = channel
        channel.limit = consume.limit
        channel.bytes_limit = consume.nbytes
        hand = self.hands.of(consume.user)
        if hand is not None:
            channel.join(hand)
        self.last_age = max(consume.age, self.last_age + (not again))
        consumer.age = consume.age or self.last_age
        if known is not None:
            self.leases.attach(link, request, queue, consumer, known)
            return
        if lease is not None:
            self.leases.begin(queue, consumer, lease[0], lease[1])
        link.remember(consumer, consumer.group)
        consumer.outlet = self.outlet(link, consume.group, consume.user)
        queue.ring.add(consumer)
        self.serving.elect(queue)
        queue.usage.had_consumers = queue.usage.consumed = True
        if exclusive:
            queue.ring.exclusive = consumer
        for rival in rivals:
            self.remove_consumer(rival.link, rival, requeue=False)
            rival.link.turn.add(to_acceptor.Cancelled(rival.id))
        link.reply(request, consumer.age)
        self.state.touch(queue)

    def consumer_of(self, link: Link, queue: QueueState, channel: Group, consume: to_shard.Consume) -> Consumer:
        """The consumer that a request attaches."""
        consumer = Consumer(consume.consumer, queue.contents, consume.no_ack, consume.prefetch, channel, link)
        consumer.window = self.window
        consumer.active = consume.active
        consumer.priority = consume.priority
        consumer.age = consume.age
        consumer.again = consume.age > 0
        consumer.elected = consume.elected
        return consumer

    def group(self, link: Link, id: int) -> Group:
        """The group of a channel, made on first use."""
        group = link.groups.get(id)
        if group is None:
            group = link.groups[id] = self.new_group(id)
        return group

    def new_group(self, id: int) -> Group:
        return Group(0, id, self.settings.amqp.unacked_bytes, self.weighs)

    def outlet(self, link: Link, group: int, user: str) -> Outlet:
        """The outlet of a channel's connection, shared by its consumers, made on first use."""
        connection = group >> bus.GROUP_BITS
        outlet = link.outlets.get(connection)
        if outlet is None:
            if link.lending is None:
                link.lending = lending_of(self.settings)
            share = link.lending.share(user)
            outlet = link.outlets[connection] = Outlet(share, self.connection_window, self.window)
        return outlet

    def rivals(self, queue: QueueState, exclusive: bool) -> list[Consumer]:
        """The consumers that exclude another one.

        One that was attached in the shard's last incarnation displaces those that came earlier in this one.
        """
        if queue.ring.exclusive is not None:
            return [queue.ring.exclusive]
        return list(queue.ring.consumers) if exclusive else []

    @checks_first
    def cancel(self, link: Link, cancel: to_shard.Cancel) -> Checking:
        """Cancel a consumer; the reply waits for the deletion of a queue that goes with its last consumer."""
        request, consumer = cancel.request, link.consumers.get(cancel.consumer)
        yield
        if consumer is not None and self.homings.defers(consumer.queue.owner, link, partial(self.cancel, link, cancel)):
            return
        queue: QueueState | None = None
        leased = consumer is not None and consumer.lease is not None
        if consumer is not None and (leased or not consumer.cancelled):
            self.serving.serve_now(consumer.queue.owner)  # messages published before still belong to it
            if leased:
                self.leases.cancelled(consumer)
            queue = self.remove_consumer(link, consumer, requeue=False)
        if leased and queue is None:
            self.leases.reply_when_written(link, request, None)
        elif queue is None:
            link.reply(request, None)
        else:
            self.deletions.ask(queue, lambda error: link.reply(request, None))

    @checks_first
    def get(self, link: Link, get: to_shard.Get) -> Checking:
        """Deliver one message (basic.get)."""
        _, _, no_ack, group, request = get
        queue = self.state.queues.get(get.queue)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.get, link, get), group):
            return
        self.serving.serve_now(queue)
        queue.usage.last = self.state.now
        queue.usage.consumed = True
        getter = link.consumers.get(get.consumer) or self.holder(link, get.consumer, queue, group, gets=True)
        taken = self.pop_one(queue, no_ack)
        if not taken:
            link.reply(request, None)
            return
        item: Range = queue.as_sent(taken[0])
        if not no_ack:
            getter.hold(item)
        part = link.turn.place_batch(item.batch, item.first, 1)
        link.reply(request, to_acceptor.Got(item.sequence, part, item.redelivered, queue.contents.ready))

    def pop_one(self, queue: QueueState, settled: bool) -> list[Range]:
        """Pop the message at the head, if there is one and it can be read."""
        taken: list[Range] = []

        def pop(queue: QueueState) -> None:
            if queue.contents.reading and queue.contents.ready:
                queue.contents.batch_of(queue.contents.first_ready())
            taken.extend(queue.contents.pop(1, 0, settled))

        self.stalls.attempt(queue, self.state.now, pop)
        return taken

    def holder(self, link: Link, id: int, queue: QueueState, group: int, *, gets: bool) -> Consumer:
        """A holder of unacked deliveries that is sent nothing: the gets of a channel, or a cancelled consumer."""
        channel = self.group(link, group)
        holder = Consumer(id, queue.contents, False, 0, Group(0) if gets else channel, link)
        holder.cancelled = True
        link.remember(holder, channel)
        return holder

    def on_hold(self, link: Link, holders: Sequence[Sequence[int]], rows: bytes) -> None:
        """Restore the unacked messages that an acceptor's consumers had in an earlier incarnation (Hold)."""
        absent = {}
        for id, queue_id, group, gets in holders:
            queue = self.state.queues.get(queue_id)
            if queue is not None and id not in link.consumers:
                absent[id] = self.holder(link, id, queue, group, gets=bool(gets))
        for consumer in hold_rows(rows, link.consumers):
            self.state.touch(consumer.queue.owner)
        for consumer in lacking(rows, link.consumers):
            self.leases.cancel(consumer, self.remove_consumer)
        self.leases.hand_out(rows, absent)
        for holder in absent.values():
            if not holder.outstanding:
                link.forget(holder)
        if self.state.recovery is not None:
            self.state.recovery.on_hold(link)

    def settle(self, link: Link, rows: bytes) -> None:
        """Apply settlements."""
        self.after_settlements(link, settle_rows(rows, link.consumers))

    def hand_over(self, link: Link, rows: bytes) -> list[tuple[QueueState, int, int, int]]:
        """Hand over the deliveries that settlements name, unsettled: queue, sequence, count and kind of each."""
        taken: list[tuple[Queue, int, int, int]] = []
        self.after_settlements(link, hand_over_rows(rows, link.consumers, taken))
        return [(contents.owner, sequence, count, kind) for contents, sequence, count, kind in taken]

    def after_settlements(self, link: Link, settled: dict[Consumer, None]) -> None:
        """Wake consumers, and those that share their limits, after settlements."""
        for consumer in settled:  # among those that share a limit they were served last
            consumer.group.sleepers.pop(consumer, None)
        for consumer in settled:
            consumer.record_settled(self.state.now)
            if consumer.group.is_limited():
                self.wake_group(consumer.group)
            self.wake(consumer)
            if consumer.cancelled and consumer.lease is None and not consumer.outstanding:
                link.forget(consumer)

    def wake(self, consumer: Consumer) -> None:
        """Wake a consumer that may have credit again, or whose queue has a message back."""
        queue: QueueState = consumer.queue.owner
        queue.ring.wake(consumer)
        self.state.touch(queue)

    def wake_group(self, group: Group) -> None:
        """Wake the consumers of a group whose limit may leave room, in the order in which they fell asleep."""
        for consumer in group.sleepers:
            self.wake(consumer)
        group.sleepers.clear()

    def open_window(self, link: Link, window: to_shard.Window) -> None:
        """Add bytes that acceptors have written to sockets to the windows of consumers."""
        for id, nbytes in window.written.items():
            consumer = link.consumers.get(id)
            if consumer is not None:
                consumer.window += nbytes
                ring: Ring = consumer.queue.owner.ring
                ring.wake(consumer)
                if consumer.queue.ready:
                    self.state.touch(consumer.queue.owner)
                outlet = consumer.outlet
                if outlet is not None:
                    outlet.returns(nbytes)
                    if outlet.sleepers or outlet.share.lending.short:
                        self.wake_outlet(outlet)

    def wake_outlet(self, outlet: Outlet) -> None:
        """Wake the consumers of a connection that may have room again."""
        for consumer in outlet.woken():
            self.wake(consumer)

    def feed(self) -> bool:
        """Wake consumers that waited for bytes in flight of their user, and tell acceptors whether any wait still.
        Return whether any woke.
        """
        woke = False
        for link in self.state.links.values():
            lending = link.lending
            if lending is not None and (lending.short or lending.urgent):
                for consumer in lending.feed():
                    self.wake(consumer)
                    woke = True
                if lending.urgent != bool(lending.short):
                    lending.urgent = not lending.urgent
                    link.turn.add(to_acceptor.ReportWritten(lending.urgent))
        return woke

    def leave_ring(self, queue: QueueState, consumer: Consumer) -> None:
        """Remove a consumer that is sent nothing more from its ring and its outlet."""
        queue.ring.remove(consumer)
        self.leave_outlet(consumer)

    def leave_outlet(self, consumer: Consumer) -> None:
        """Return a consumer's bytes in flight to its outlet."""
        outlet, consumer.outlet = consumer.outlet, None
        if outlet is not None:
            outlet.leaves(consumer, consumer.window)
            self.wake_outlet(outlet)

    @checks_first
    def limit(self, link: Link, limit: to_shard.Limit) -> Checking:
        """Set the prefetch limit that a channel's consumers share."""
        shared = link.groups.get(limit.group) or self.new_group(limit.group)
        yield
        link.groups[limit.group] = shared
        shared.limit = limit.limit
        shared.granted = 0
        shared.hungry = False
        self.wake_group(shared)
        link.reply(limit.request, None)

    def limit_bytes(self, link: Link, unacked: to_shard.Unacked) -> None:
        """Set how many bytes the consumers of a channel may have unacked on this shard."""
        group = link.groups.get(unacked.group)
        if group is not None:
            group.bytes_limit = unacked.nbytes
            self.wake_group(group)

    def grant(self, link: Link, grant: to_shard.Grant) -> None:
        """Grant a group a number of messages until the end of the turn."""
        group = link.groups.get(grant.group)
        if group is not None:
            group.granted += grant.messages
            group.hungry = False
            self.grants.append((link, group, grant.messages))
            self.wake_group(group)

    def end_grants(self) -> None:
        """The turn ends: void unused grants and send Spent for each."""
        grants, self.grants = self.grants, []
        for link, group, count in grants:
            group.granted = 0
            link.turn.add(to_acceptor.Spent(group.id, count))

    @checks_first
    def set_active(self, link: Link, active: to_shard.Active) -> Checking:
        """Stop or resume deliveries to consumers, including those that still wait to be attached."""
        missing = [id for id in active.consumers if id not in link.consumers]
        yield
        self.set_attribute("active", link, active.consumers, active.active)
        if missing:
            self.homings.queue_behind(link, partial(self.set_attribute, "active", link, missing, active.active))
        link.reply(active.request, None)

    @checks_first
    def set_prefetch(self, link: Link, change: to_shard.Prefetch) -> Checking:
        """Set the prefetch of consumers, including those that still wait to be attached."""
        missing = [id for id in change.consumers if id not in link.consumers]
        yield
        self.set_attribute("prefetch", link, change.consumers, change.prefetch)
        if missing:
            self.homings.queue_behind(link, partial(self.set_attribute, "prefetch", link, missing, change.prefetch))
        link.reply(change.request, None)

    def set_attribute(self, what: Literal["active", "prefetch"], link: Link, ids: Sequence[int], value: int) -> None:
        for id in ids:
            consumer = link.consumers.get(id)
            if consumer is not None:
                setattr(consumer, what, value)
                self.wake(consumer)

    def end_channel(self, link: Link, gone: to_shard.Gone) -> None:
        """A channel has ended: end its consumers and drop its requests."""
        id = gone.group
        release(link, id)
        self.homings.drop_requests(link, id)
        group = link.groups.pop(id, None)
        if group is not None:
            for consumer in list(group.members):
                self.end_consumer(link, consumer)

    def close_queue(self, link: Link, queue: QueueState) -> None:
        """A queue is gone: note its consumers for Cancelled, and wake those that share their limits."""
        groups: dict[Group, None] = {}
        for consumer in [c for c in link.consumers.values() if c.queue is queue.contents]:
            consumer.let_go_all()
            link.forget(consumer)
            consumer.rest()
            groups[consumer.group] = None
            self.leave_outlet(consumer)
            if consumer.lease is not None or not consumer.cancelled:
                queue.deletion.to_cancel.append(consumer)
        for group in groups:
            self.wake_group(group)

    def end_consumer(self, link: Link, consumer: Consumer) -> None:
        """End a consumer whose channel is gone: its unacked messages are requeued."""
        queue = self.remove_consumer(link, consumer, requeue=True)
        if queue is not None:
            self.deletions.ask(queue, lambda error: None)

    def remove_consumer(self, link: Link, consumer: Consumer, requeue: bool) -> QueueState | None:
        """Remove a consumer from the ring. A cancelled one keeps its unacked messages; those of one that is gone are
        requeued.

        Return its queue if that is to be deleted because it had its last consumer.
        """
        queue: QueueState = consumer.queue.owner
        if consumer.lease is not None:
            self.leases.leave(queue, consumer)
        elif requeue:
            consumer.requeue_all()
        self.state.touch(queue)
        if requeue or not consumer.outstanding:
            link.forget(consumer)
        if consumer.cancelled:
            return None
        consumer.cancelled = True
        self.leave_ring(queue, consumer)
        self.serving.elect(queue)
        queue.usage.last = self.state.now
        if queue.ring.exclusive is consumer:
            queue.ring.exclusive = None
        return queue if queue.is_left() and queue.deletion.stage is Stage.KEPT else None
