"""Consumers of an acceptor, and deliveries on their way from shards to the consumers' sockets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import has_failed
from acceptor.clients.consumers import Consumer
from acceptor.clients.pauses import HELD
from acceptor.links.shard_link import Reply
from acceptor.links.unacked_cy import Settlements
from penstock import bus
from penstock.batch.consumer_ids import GETS, consumer_id
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation

if TYPE_CHECKING:
    from acceptor.budgets.outputs import Outputs
    from acceptor.clients.connection_state import ConnectionState
    from acceptor.clients.state import AcceptorState
    from acceptor.holding.drip import Drip

# A consumer's window is reopened once an eighth of it has left for its socket.
WINDOW_SHARE = 8


class Delivery:
    """The consumers of one acceptor, by their id on the bus.

    `uncredited` are connections whose sockets take nothing: their consumers' windows are not opened. `urgent` are
    shards to which bytes that have left for sockets are reported at once.
    """

    def __init__(self, acceptor: AcceptorState, drip: Drip, outputs: Outputs) -> None:
        self.acceptor = acceptor
        self.drip = drip
        self.outputs = outputs
        self.window = acceptor.settings.flow.consumer_window_bytes
        self.connection_window = acceptor.settings.flow.connection_window_bytes
        self.consumers: dict[int, Consumer] = {}
        self.uncredited: set[ConnectionState] = set()
        self.urgent: set[int] = set()
        self.delivered_total = 0
        self.last_consumer = 0

    def next_consumer(self, shard: int) -> int:
        """Return a new consumer id for a shard."""
        self.last_consumer += 1
        return consumer_id(self.last_consumer, shard)

    def next_getter(self, shard: int) -> int:
        """Return an id for the gets of a channel."""
        return GETS | self.next_consumer(shard)

    def rename(self, consumer: Consumer, id: int) -> None:
        """Change a consumer's id."""
        if self.consumers.pop(consumer.id, None) is not None:
            self.consumers[id] = consumer
        consumer.id = id

    def forget(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.pop(consumer.id, None)
        self.reported(consumer)

    def forget_connection(self, connection: ConnectionState) -> None:
        """Remove a closed connection."""
        self.uncredited.discard(connection)

    def deliver(self, delivery: to_acceptor.Deliver, parts: list[Any]) -> None:
        """Write a shard's delivery to the consumer's connection, and open windows that are due."""
        id, sequence, part, count, redelivered = delivery
        consumer = self.consumers.get(id)
        if consumer is None:
            return
        channel = consumer.channel
        connection = channel.connection
        batch = bus.batch_at(parts, part)
        nbytes = batch.whole(0, count)
        if consumer.no_ack:
            tag = channel.unacked.skip(count)
            channel.traffic.delivered_no_ack += count
        else:
            tag = channel.unacked.deliver(id, sequence, count, int(self.acceptor.now), nbytes)
            channel.traffic.delivered += count
        if redelivered:
            channel.traffic.redelivered += count
        connection.write_contents(channel.number, consumer.prefix, tag, redelivered, b"", batch, 0, count)
        consumer.written += nbytes
        connection.delivered += nbytes
        connection.unreported += nbytes
        self.delivered_total += count
        if connection.pauses & HELD:
            self.drip.read_soon(connection)
        overdue = connection.unreported * WINDOW_SHARE > self.connection_window
        if overdue or consumer.written * WINDOW_SHARE > self.window or consumer.shard in self.urgent:
            if not connection.writable:
                self.uncredited.add(connection)
            elif overdue:
                self.open_windows(connection)
            else:
                self.open_window(consumer)

    def open_window(self, consumer: Consumer) -> None:
        """Report to the shard the bytes that have left for a consumer's socket."""
        if consumer.shard < self.acceptor.nowhere:  # else its queue moves, and its window is opened after the move
            self.acceptor.links[consumer.shard].turn.open_window(consumer.id, consumer.written)
        self.reported(consumer)

    def open_windows(self, connection: ConnectionState) -> None:
        """Report to shards all bytes that have left for a connection's socket."""
        for channel in connection.channels.values():
            for consumer in channel.consumers.values():
                if consumer.written:
                    self.open_window(consumer)

    def report_written(self, shard: int, at_once: bool) -> None:
        """Report bytes that have left for sockets to a shard at once from now on, or no longer so."""
        if not at_once:
            self.urgent.discard(shard)
            return
        self.urgent.add(shard)
        for consumer in self.consumers.values():
            if consumer.shard == shard and consumer.written:
                if consumer.channel.connection.writable:
                    self.open_window(consumer)
                else:
                    self.uncredited.add(consumer.channel.connection)

    def reported(self, consumer: Consumer) -> None:
        """Record that all bytes written for a consumer have been reported."""
        consumer.channel.connection.unreported -= consumer.written
        consumer.written = 0

    def writable(self, connection: ConnectionState, writable: bool) -> None:
        """Record that the socket's buffer is full, or has drained."""
        connection.writable = writable
        self.outputs.writable(connection, writable)
        if writable and connection in self.uncredited:
            self.uncredited.discard(connection)
            self.open_windows(connection)

    def on_operation(self, shard: int, operation: Operation) -> None:
        """Process a shard's operation about a consumer, or about a channel with a shared limit."""
        match operation:
            case to_acceptor.Cancelled():
                self.cancelled(operation.consumer)
            case to_acceptor.Elected() if operation.consumer in self.consumers:
                self.consumers[operation.consumer].elected = True
            case to_acceptor.Hungry() if operation.group in self.acceptor.sharing:
                self.acceptor.sharing[operation.group].is_hungry(shard)
            case to_acceptor.Spent() if operation.group in self.acceptor.sharing:
                self.acceptor.sharing[operation.group].spent(shard, operation.messages)
            case to_acceptor.Traced() if operation.consumer in self.consumers:
                consumer = self.consumers[operation.consumer]
                self.acceptor.tracing.delivered(operation, consumer.tag, consumer.channel.whose())
            case to_acceptor.ReportWritten():
                self.report_written(shard, operation.at_once)

    def shard_started(self, shard: int) -> None:
        """Drop the grants of a shard's earlier incarnation: turns that it had sent before it died might have used them
        until now. The next one has lent nothing yet.
        """
        self.urgent.discard(shard)
        for shared in self.acceptor.sharing.values():
            shared.lost(shard)

    def attach_again(self, shard: int) -> list[tuple[to_shard.Consume, Reply]]:
        """Return the operations that re-attach consumers to the next incarnation of their shard.

        A consumer that waits for the answer to its first request is not among them: that request is repeated. Nor is
        one whose queue is moving to another shard (acceptor/moving/moving.py).
        """
        attach: list[tuple[to_shard.Consume, Reply]] = []
        for consumer in self.consumers.values():
            if consumer.shard == shard and consumer.age:
                self.reported(consumer)
                attach.append((consumer.request(), partial(self.attached_again, consumer)))
        return attach

    def in_hand(self, shard: int) -> Settlements:
        """Return rows of all deliveries of a shard that are not settled for good; those that were to be requeued are
        marked so.
        """
        held = Settlements()
        for channel in self.acceptor.channels():
            channel.unacked.hold(shard, held)
            for transaction in channel.transactions():
                held.extend_held(transaction.settlements[shard])
        for sent in self.acceptor.links[shard].unsafe():
            if sent.returned is not None:
                held.extend(sent.returned, requeues=True)
            held.extend(sent.settlements, requeues=True)
            for commit in sent.commits.values():
                if commit.settlements is not None:
                    held.extend(commit.settlements, requeues=True)
        return held

    def resume(self, shard: int) -> None:
        """Send the consumers and their unacked messages to a shard's next incarnation once it has reported its safe
        turns.
        """
        living = {channel.group for channel in self.acceptor.channels()}
        version = self.acceptor.topology.version
        self.acceptor.links[shard].resume(version, self.attach_again(shard), self.in_hand(shard), living)

    def forget_holders(self) -> None:
        """Forget consumers whose deliveries are all settled for good; called now and then."""
        for link in self.acceptor.links:
            if link.holders.are_many():
                getters = {id for channel in self.acceptor.channels() for id in channel.getters.values()}
                asked = (request for request, _ in link.requests.values())
                asking = {request.consumer for request in asked if isinstance(request, to_shard.Consume)}
                link.holders.keep({*self.consumers, *getters, *asking, *self.in_hand(link.index).consumers()})

    def attached_again(self, consumer: Consumer, result: Any, error: list[Any] | None, parts: Sequence[Any]) -> None:
        """Cancel a consumer that could not be re-attached."""
        if error is not None and not has_failed(consumer.channel.connection, error):
            self.cancelled(consumer.id)

    def cancelled(self, id: int) -> None:
        """Remove a consumer whose queue was deleted, and notify its client if it supports that."""
        consumer = self.consumers.pop(id, None)
        if consumer is None:
            return
        self.reported(consumer)
        channel = consumer.channel
        channel.consumers.pop(consumer.tag, None)
        channel.leave_to_lease(consumer)
        if channel.connection.client.has_capability("consumer_cancel_notify"):
            channel.send("basic_cancel", consumer_tag=consumer.tag, nowait=True)
