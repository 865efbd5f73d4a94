"""What shards deliver, on its way to the sockets of an acceptor's consumers, and the consumers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.consumers import Consumer
from acceptor.prefetch import SharedPrefetch
from acceptor.shard_link import Reply
from acceptor.unacked_cy import GETS
from penstock import bus

if TYPE_CHECKING:
    from acceptor.connection import Connection
    from acceptor.core import AcceptorCore

# A consumer's window is opened again once this share of it has left for its socket.
WINDOW_SHARE = 8


class Delivery:
    """The consumers of one acceptor, by their id on the bus.

    `uncredited` are those whose window is not opened while their connection's socket takes nothing; `sharing`
    holds, by group, what keeps the prefetch limit of a channel over several shards.
    """

    def __init__(self, core: AcceptorCore) -> None:
        self.core = core
        self.window = core.settings.flow.consumer_window_bytes
        self.consumers: dict[int, Consumer] = {}
        self.uncredited: dict[Connection, dict[Consumer, None]] = {}
        self.sharing: dict[int, SharedPrefetch] = {}
        self.delivered_total = 0
        self.last_consumer = 0

    def next_consumer(self, shard: int) -> int:
        self.last_consumer += 1
        return self.last_consumer << 8 | shard

    def next_getter(self, shard: int) -> int:
        """An id for the gets of a channel."""
        return GETS | self.next_consumer(shard)

    def forget(self, consumer: Consumer) -> None:
        self.consumers.pop(consumer.id, None)

    def forget_connection(self, connection: Connection) -> None:
        self.uncredited.pop(connection, None)

    def deliver(self, operation: list[Any], parts: list[Any]) -> None:
        _, id, sequence, part, count, redelivered = operation
        consumer = self.consumers.get(id)
        if consumer is None:
            return
        channel = consumer.channel
        connection = channel.connection
        batch = bus.batch_at(parts, part)
        tag = (
            channel.unacked.skip(count)
            if consumer.no_ack
            else channel.unacked.deliver(id, sequence, count, int(self.core.now))
        )
        connection.write_contents(channel.number, consumer.prefix, tag, redelivered, b"", batch, 0, count)
        consumer.written += batch.body_bytes(0, count) + bus.MESSAGE_WEIGHT * count
        self.delivered_total += count
        if consumer.written * WINDOW_SHARE > self.window:
            if connection.writable:
                self.open_window(consumer)
            else:
                self.uncredited.setdefault(connection, {})[consumer] = None

    def open_window(self, consumer: Consumer) -> None:
        """Tell the shard what has left for the socket."""
        self.core.links[consumer.queue.shard].open_window(consumer.id, consumer.written)
        consumer.written = 0

    def writable(self, connection: Connection, writable: bool) -> None:
        """The socket's buffer is full, or has drained."""
        connection.writable = writable
        if writable:
            for consumer in self.uncredited.pop(connection, {}):
                self.open_window(consumer)

    def hungry(self, shard: int, group: int) -> None:
        """A shard could send more to the consumers of a channel if it was granted."""
        if group in self.sharing:
            self.sharing[group].is_hungry(shard)

    def spent(self, shard: int, group: int, count: int) -> None:
        """A shard has used a grant as far as it could."""
        if group in self.sharing:
            self.sharing[group].spent(shard, count)

    def shard_died(self, shard: int) -> None:
        for shared in self.sharing.values():
            shared.lost(shard)

    def attach_again(self, shard: int) -> list[tuple[list[Any], Reply]]:
        """What attaches its consumers to the next life of a shard, under new ids: nothing meant for the old finds them.

        Those that wait for the answer to their first, or last, request are not among them: that is asked again.
        """
        attach: list[tuple[list[Any], Reply]] = []
        for consumer in [c for c in self.consumers.values() if c.queue.shard == shard]:
            if consumer.leaving or not consumer.attached:
                continue
            del self.consumers[consumer.id]
            consumer.id = self.next_consumer(shard)
            consumer.written = 0
            consumer.attached = False
            consumer.again = True
            self.consumers[consumer.id] = consumer
            attach.append((consumer.operation(), partial(self.attached_again, consumer)))
        for connection in self.core.connections.values():
            for channel in connection.channels.values():
                channel.getters = {queue: id for queue, id in channel.getters.items() if id & 255 != shard}
        return attach

    def attached_again(self, consumer: Consumer, result: Any, error: list[Any] | None, parts: Sequence[Any]) -> None:
        if error is None:
            consumer.attached = True
        else:
            self.cancelled(consumer.id)

    def cancelled(self, id: int) -> None:
        """Its queue was deleted: tell clients that want to know."""
        consumer = self.consumers.pop(id, None)
        if consumer is None:
            return
        channel = consumer.channel
        channel.consumers.pop(consumer.tag, None)
        if channel.connection.has_capability("consumer_cancel_notify"):
            channel.send("basic_cancel", consumer_tag=consumer.tag, nowait=True)
