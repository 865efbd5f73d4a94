"""Requests of acceptors for their consumers: attach, settle, limit, pause and end them, and get.

Consumers and gets belong to the link of their acceptor (shard/turns/link.py); the queue decides the order of service
(shard/queue/dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from penstock import bus
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
from shard.serving.leases import Leases
from shard.serving.serving import Serving
from shard.turns.link import Link
from shard.turns.looking import Looking, looks_first
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
        self.operations: dict[int, Callable[..., None]] = {
            bus.WINDOW: self.open_window,
            bus.CONSUME: self.consume,
            bus.CANCEL: self.cancel,
            bus.GET: self.get,
            bus.LIMIT: self.limit,
            bus.UNACKED: self.limit_octets,
            bus.GRANT: self.grant,
            bus.ACTIVE: partial(self.change, what="active"),
            bus.PREFETCH: partial(self.change, what="prefetch"),
            bus.GONE: self.end_channel,
        }

    @looks_first
    def consume(
        self, link: Link, request: int, id: int, queue_id: int, no_ack: bool, exclusive: bool, prefetch: int,
        group: int, limit: int, active: bool, priority: int, age: int, elected: bool,
        user: str, octets: int, lease: tuple[str, int, str] | None = None,
    ) -> Looking:  # fmt: skip
        """Attach a consumer, or end a lease (CONSUME)."""
        queue = self.state.queues.get(queue_id)
        if queue is None or queue.deletion.stage is not Stage.KEPT:
            link.refuse(request, 404, "no such queue")
            return
        channel = link.groups.get(group) or self.new_group(group)
        consumer = Consumer(id, queue.contents, no_ack, prefetch, channel, link)
        consumer.window = self.window
        consumer.active = active
        consumer.priority = priority
        consumer.age = age
        consumer.again = again = age > 0
        consumer.elected = elected
        yield
        if not again and self.homings.defers(queue, link, partial(
            self.consume, link, request, id, queue_id, no_ack, exclusive, prefetch, group, limit, active, priority, age,
            elected, user, octets, lease,
        ), group):  # fmt: skip
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
        link.groups[group] = channel
        channel.limit = limit
        channel.octets_limit = octets
        hand = self.hands.of(user)
        if hand is not None:
            channel.join(hand)
        self.last_age = max(age, self.last_age + (not again))
        consumer.age = age or self.last_age
        if known is not None:
            self.leases.attach(link, request, queue, consumer, known)
            return
        if lease is not None:
            self.leases.begin(queue, consumer, lease[0], lease[1])
        link.remember(consumer, consumer.group)
        consumer.outlet = self.outlet(link, group, user)
        queue.ring.add(consumer)
        self.serving.elect(queue)
        queue.usage.had_consumers = queue.usage.consumed = True
        if exclusive:
            queue.ring.exclusive = consumer
        for rival in rivals:
            self.remove_consumer(rival.link, rival, requeue=False)
            rival.link.turn.operations.append([bus.CANCELLED, rival.id])
        link.reply(request, consumer.age)
        self.state.touch(queue)

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

    @looks_first
    def cancel(self, link: Link, request: int, id: int) -> Looking:
        """Cancel a consumer; the reply waits for the deletion of a queue that goes with its last consumer."""
        consumer = link.consumers.get(id)
        yield
        if consumer is not None and self.homings.defers(
            consumer.queue.owner, link, partial(self.cancel, link, request, id)
        ):
            return
        queue: QueueState | None = None
        leased = consumer is not None and consumer.lease is not None
        if consumer is not None and (leased or not consumer.cancelled):
            self.serving.serve_now(consumer.queue.owner)  # messages published before still belong to it
            if leased:
                self.leases.cancelled(consumer)
            queue = self.remove_consumer(link, consumer, requeue=False)
        if leased and queue is None:
            link.reply_when_safe(request, None)
        elif queue is None:
            link.reply(request, None)
        else:
            self.deletions.ask(queue, lambda error: link.reply(request, None))

    @looks_first
    def get(self, link: Link, request: int, id: int, queue_id: int, no_ack: bool, group: int) -> Looking:
        """Deliver one message (basic.get)."""
        queue = self.state.queues.get(queue_id)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.get, link, request, id, queue_id, no_ack, group), group):
            return
        self.serving.serve_now(queue)
        queue.usage.last = self.state.now
        queue.usage.consumed = True
        getter = link.consumers.get(id) or self.holder(link, id, queue, group, gets=True)
        taken = self.pop_one(queue, no_ack)
        if not taken:
            link.reply(request, None)
            return
        item: Range = queue.as_sent(taken[0])
        if not no_ack:
            getter.hold(item)
        part = link.turn.place_batch(item.batch, item.first, 1)
        link.reply(request, [item.sequence, part, item.redelivered, queue.contents.ready])

    def pop_one(self, queue: QueueState, settled: bool) -> list[Range]:
        """Pop the message at the head, if there is one and it can be read."""
        taken: list[Range] = []

        def take(queue: QueueState) -> None:
            if queue.contents.reading and queue.contents.ready:
                queue.contents.batch_of(queue.contents.first_ready())
            taken.extend(queue.contents.take(1, 0, settled))

        self.stalls.attempt(queue, self.state.now, take)
        return taken

    def holder(self, link: Link, id: int, queue: QueueState, group: int, *, gets: bool) -> Consumer:
        """A holder of unacked deliveries that is sent nothing: the gets of a channel, or a cancelled consumer."""
        channel = self.group(link, group)
        holder = Consumer(id, queue.contents, False, 0, Group(0) if gets else channel, link)
        holder.cancelled = True
        link.remember(holder, channel)
        return holder

    def on_hold(self, link: Link, parts: Sequence[Any], operation: list[Any]) -> None:
        """Restore the unacked messages that an acceptor's consumers had in an earlier incarnation of the shard
        (HOLD).
        """
        _, holders, part = operation
        absent = []
        for id, queue_id, group, gets in holders:
            queue = self.state.queues.get(queue_id)
            if queue is not None and id not in link.consumers:
                absent.append(self.holder(link, id, queue, group, gets=gets))
        for consumer in hold_rows(parts[part], link.consumers):
            self.state.touch(consumer.queue.owner)
        for holder in absent:
            if not holder.outstanding:
                link.forget(holder)
        if self.state.recovery is not None:
            self.state.recovery.on_hold(link)

    def settle(self, link: Link, parts: Sequence[Any], operation: list[Any]) -> None:
        """Apply the settlements of a SETTLE operation."""
        self.after_settlements(link, settle_rows(parts[operation[1]], link.consumers))

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
            consumer.note_settled(self.state.now)
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

    def open_window(self, link: Link, windows: dict[int, int]) -> None:
        """Add bytes that acceptors have written to sockets to the windows of consumers."""
        for id, octets in windows.items():
            consumer = link.consumers.get(id)
            if consumer is not None:
                consumer.window += octets
                ring: Ring = consumer.queue.owner.ring
                ring.wake(consumer)
                if consumer.queue.ready:
                    self.state.touch(consumer.queue.owner)
                outlet = consumer.outlet
                if outlet is not None:
                    outlet.returns(octets)
                    if outlet.sleepers or outlet.share.lending.hungry:
                        self.wake_outlet(outlet)

    def wake_outlet(self, outlet: Outlet) -> None:
        """Wake the consumers of a connection that may have room again."""
        for consumer in outlet.woken():
            self.wake(consumer)

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

    @looks_first
    def limit(self, link: Link, request: int, group: int, limit: int) -> Looking:
        """Set the prefetch limit that a channel's consumers share."""
        shared = link.groups.get(group) or self.new_group(group)
        yield
        link.groups[group] = shared
        shared.limit = limit
        shared.granted = 0
        shared.hungry = False
        self.wake_group(shared)
        link.reply(request, None)

    def limit_octets(self, link: Link, id: int, octets: int) -> None:
        """Set how many bytes the consumers of a channel may have unacked on this shard."""
        group = link.groups.get(id)
        if group is not None:
            group.octets_limit = octets
            self.wake_group(group)

    def grant(self, link: Link, id: int, count: int) -> None:
        """Grant a group so many messages until the end of the turn."""
        group = link.groups.get(id)
        if group is not None:
            group.granted += count
            group.hungry = False
            self.grants.append((link, group, count))
            self.wake_group(group)

    def end_grants(self) -> None:
        """The turn ends: void unused grants and send SPENT for each."""
        grants, self.grants = self.grants, []
        for link, group, count in grants:
            group.granted = 0
            link.turn.operations.append([bus.SPENT, group.id, count])

    @looks_first
    def change(
        self, link: Link, request: int, ids: list[int], value: int, *, what: Literal["active", "prefetch"]
    ) -> Looking:
        """Set an attribute of consumers, including those that still wait to be attached."""
        missing = [id for id in ids if id not in link.consumers]
        yield
        self.set_attribute(what, link, ids, value)
        if missing:
            self.homings.queue_behind(link, partial(self.set_attribute, what, link, missing, value))
        link.reply(request, None)

    def set_attribute(self, what: str, link: Link, ids: list[int], value: int) -> None:
        for id in ids:
            consumer = link.consumers.get(id)
            if consumer is not None:
                setattr(consumer, what, value)
                self.wake(consumer)

    def end_channel(self, link: Link, id: int) -> None:
        """A channel has ended: end its consumers and drop its requests."""
        release(link, id)
        self.homings.drop_requests(link, id)
        group = link.groups.pop(id, None)
        if group is not None:
            for consumer in list(group.members):
                self.end_consumer(link, consumer)

    def close_queue(self, link: Link, queue: QueueState) -> None:
        """A queue is gone: note its consumers for CANCELLED, and wake those that share their limits."""
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
