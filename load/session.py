"""One pika connection with one channel, for load: batches, their confirms, and stops by the broker.

pika's blocking adapter confirms one publish at a time and offers no hook for Channel.Flow, so this file, and no other,
reaches the channel object under it (`_impl`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Literal

import pika
from pika import spec

from load.confirms import ConfirmWindow
from load.counters import Stop
from load.ranges import RangeSet
from load.target import Target
from load.tls import client_context

Delivery = Callable[[spec.Basic.Deliver, pika.BasicProperties, bytes], None]

BLOCKED_SECONDS_MAX = 3600
"""pika closes a connection that is blocked for longer; no load run plans a stop of this length."""

CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}


HONOURS_FLOW = {"product": "RabbitMQ", "platform": "Java"}
"""Client properties of the Java client, by which brokers know that Channel.Flow stops it. A session that obeys
Channel.Flow must send them, or a broker would never send it any.
"""


def connection_parameters(target: Target, name: str, answers_flow: bool) -> pika.ConnectionParameters:
    """Return pika's parameters for a connection of that name."""
    properties: dict[str, Any] = {"connection_name": name, "capabilities": CAPABILITIES}
    if answers_flow:
        properties |= HONOURS_FLOW
    return pika.ConnectionParameters(
        host=target.host,
        port=target.port,
        virtual_host=target.vhost,
        credentials=pika.PlainCredentials(target.user, target.password),
        client_properties=properties,
        ssl_options=pika.SSLOptions(client_context(target.authority), target.host) if target.tls else None,
        blocked_connection_timeout=BLOCKED_SECONDS_MAX,
    )


class Session:
    """A connection and its channel. Errors of pika (`pika.exceptions.AMQPError`) pass through.

    `stopped_by_flow` and `blocked` say what the broker asks for; whether to obey is the caller's choice, except for the
    flow-ok, which only a session with `answers_flow` sends. `on_stop` is called when a stop has ended.
    """

    def __init__(
        self,
        target: Target,
        name: str,
        answers_flow: bool = False,
        on_stop: Callable[[Stop], None] | None = None,
    ) -> None:
        self._on_stop = on_stop
        self._answers_flow = answers_flow
        self._began: dict[Literal["FLOW", "BLOCKED"], float] = {}
        self._window = ConfirmWindow()
        self._on_settled: Callable[[RangeSet, bool], None] | None = None
        self.blocked_reason = ""
        self.connection = pika.BlockingConnection(connection_parameters(target, name, answers_flow))
        self.connection.add_on_connection_blocked_callback(self._connection_blocked)
        self.connection.add_on_connection_unblocked_callback(self._connection_unblocked)
        self.channel = self.connection.channel()
        self.channel._impl.add_on_flow_callback(self._channel_flow)

    @property
    def stopped_by_flow(self) -> bool:
        """Whether Channel.Flow(active=false) is in force."""
        return "FLOW" in self._began

    @property
    def blocked(self) -> bool:
        """Whether Connection.Blocked is in force."""
        return "BLOCKED" in self._began

    @property
    def unconfirmed(self) -> int:
        """The number of unconfirmed publishes."""
        return len(self._window)

    def turn(self, seconds: float = 0.0) -> None:
        """Write pending bytes and process what the broker sends, for about `seconds` at most.

        Returns only once everything is written: here a broker that does not read holds its client.
        """
        self.connection.process_data_events(seconds)

    def confirm_select(self, on_settled: Callable[[RangeSet, bool], None]) -> None:
        """Switch on confirms; `on_settled` gets delivery tags and whether they were acked (else nacked)."""
        self._on_settled = on_settled
        selected: list[object] = []
        self.channel._impl.confirm_delivery(self._confirmed, callback=selected.append)
        while not selected:
            self.turn(0.1)

    def publish(
        self,
        routing_key: str,
        bodies: Iterable[bytes],
        properties: pika.BasicProperties | None = None,
        exchange: str = "",
    ) -> None:
        """Publish to an exchange, all in one write; with the default exchange the routing key is the queue's name."""
        for body in bodies:
            if self._on_settled is not None:
                self._window.publish()
            self.channel._impl.basic_publish(exchange, routing_key, body, properties)
        self.turn()

    def consume(
        self, queue: str, prefetch: int, on_delivery: Delivery, auto_ack: bool = False, exclusive: bool = False
    ) -> None:
        """Deliver messages to `on_delivery` in later turns, at most `prefetch` of them unacknowledged."""
        self.channel.basic_qos(prefetch_count=prefetch)
        self.channel.basic_consume(
            queue,
            on_message_callback=lambda _channel, method, properties, body: on_delivery(method, properties, body),
            auto_ack=auto_ack,
            exclusive=exclusive,
        )

    def ack_up_to(self, delivery_tag: int) -> None:
        """Acknowledge this delivery and all before it."""
        self.channel.basic_ack(delivery_tag, multiple=True)

    def ack(self, delivery_tag: int) -> None:
        """Acknowledge this delivery alone."""
        self.channel.basic_ack(delivery_tag)

    def depth(self, queue: str) -> int:
        """Return the number of ready messages in a queue, by a passive declare."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def close(self) -> None:
        """Close in order, or hang up if the broker holds this session: an orderly close would wait for the broker."""
        self._end_stops()
        if not self.connection.is_open:
            return
        if self.unconfirmed or self.connection._impl._get_write_buffer_size():
            self.connection._impl._transport.abort()
            self.connection._impl.ioloop.close()
        else:
            self.connection.close()

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        settled = self._window.settle(method.delivery_tag, method.multiple)
        if settled and self._on_settled is not None:
            self._on_settled(settled, isinstance(method, spec.Basic.Ack))
            self._end_turn()

    def _channel_flow(self, frame: Any) -> None:
        active = frame.method.active
        if active:
            self._end("FLOW")
        else:
            self._began.setdefault("FLOW", monotonic())
        if self._answers_flow and self.channel.is_open:  # no method may follow a sent channel.close
            self.channel._impl._send_method(spec.Channel.FlowOk(active))
        self._end_turn()

    def _end_turn(self) -> None:
        """Let `turn` return, which it does by itself for a delivery but not for events that pika's blocking adapter
        hides.
        """
        self.connection._request_channel_dispatch(-self.channel.channel_number)

    def _connection_blocked(self, _connection: object, frame: Any) -> None:
        self.blocked_reason = frame.method.reason
        self._began.setdefault("BLOCKED", monotonic())

    def _connection_unblocked(self, _connection: object, _frame: object) -> None:
        self._end("BLOCKED")

    def _end(self, method: Literal["FLOW", "BLOCKED"]) -> None:
        began = self._began.pop(method, None)
        if began is not None and self._on_stop is not None:
            self._on_stop(Stop(began, monotonic(), method))

    def _end_stops(self) -> None:
        for method in tuple(self._began):
            self._end(method)
