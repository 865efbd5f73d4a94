"""The two connections of a relay, on pika: one consumes, the other publishes with confirms. Properties of messages pass
as the bytes that they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import pika
from pika.exceptions import ChannelClosedByBroker, InvalidFrameError

from ops.relay.delivery import Delivery
from ops.relay.events import SourceEvents, TargetEvents
from penstock.amqp.properties import PROPERTIES_AT
from penstock.client.link import Link
from penstock.client.options import Options
from penstock.client.unconfirmed import Destination

_FRAME_START: Final = struct.Struct(">BHL")
_BODY_SIZE: Final = struct.Struct(">HHQ")
"""Class, weight and body size, with which the payload of a content header begins."""


class EncodedProperties:
    """The properties of a message as they are on the wire; for pika they are a `BasicProperties`."""

    INDEX: Final = pika.spec.BasicProperties.INDEX

    def __init__(self, data: bytes) -> None:
        self.data = data

    def encode(self) -> list[bytes]:
        """Return the parts that pika puts into a content header."""
        return [self.data]


class EncodedConnection(pika.SelectConnection):  # type: ignore[misc]
    """pika's connection, with properties that are not decoded: decoding loses the types of headers."""

    def _read_frame(self) -> Any:
        data = self._frame_buffer
        if data[:1] != bytes([pika.spec.FRAME_HEADER]) or len(data) < _FRAME_START.size:
            return super()._read_frame()
        _, channel, size = _FRAME_START.unpack_from(data)
        end = _FRAME_START.size + size
        if len(data) <= end:
            return 0, None
        if data[end] != pika.spec.FRAME_END or size < PROPERTIES_AT:
            raise InvalidFrameError("a content header without its end")
        _, _, body_size = _BODY_SIZE.unpack_from(data, _FRAME_START.size)
        properties = EncodedProperties(data[_FRAME_START.size + PROPERTIES_AT : end])
        return end + 1, pika.frame.Header(channel, body_size, properties)


class Source(Link):
    """Consumes from a queue, with manual acks."""

    connection_type = EncodedConnection

    def __init__(
        self, parameters: Any, options: Options, events: SourceEvents, loop: Any, queue: str, prefetch: int
    ) -> None:
        super().__init__(parameters, options, events, loop)
        self._events = events
        self._queue = queue
        self._prefetch = prefetch

    def ack(self, tag: int) -> None:
        """Ack a delivery of the open channel."""
        self._channel.basic_ack(tag)

    def count(self, counted: Callable[[int], None]) -> None:
        """Ask for the number of ready messages. What was delivered before is reported before."""
        self._channel.queue_declare(
            self._queue, passive=True, callback=lambda frame: counted(frame.method.message_count)
        )

    def _prepare(self, channel: Any) -> None:
        channel.add_on_cancel_callback(lambda _: self._events.cancelled())
        channel.basic_qos(prefetch_count=self._prefetch)
        self.count(self._consume)

    def _consume(self, ready: int) -> None:
        self._events.up()
        self._events.ready(ready)
        self._channel.basic_consume(self._queue, self._delivered)

    def _ended(self) -> None:
        self._events.ended()

    def _delivered(self, _channel: Any, method: Any, properties: EncodedProperties, body: bytes) -> None:
        tag, exchange, routing_key = method.delivery_tag, method.exchange, method.routing_key
        self._events.delivered(Delivery(tag, exchange, routing_key, properties.data, body))


class Target(Link):
    """Publishes with confirms; every message is mandatory."""

    connection_type = EncodedConnection

    def __init__(
        self,
        parameters: Any,
        options: Options,
        events: TargetEvents,
        loop: Any,
        queue: str | None,
        exchange: str | None = None,
    ) -> None:
        """With a `queue` or an `exchange`, the channel is closed with 404 unless it exists."""
        super().__init__(parameters, options, events, loop)
        self._events = events
        self._queue = queue
        self._exchange = exchange

    def relay(self, delivery: Delivery, destination: Destination) -> None:
        """Publish a message on the open channel."""
        properties = EncodedProperties(delivery.properties)
        self._channel.basic_publish(*destination, delivery.body, properties, mandatory=True)

    def find_exchange(self, name: str, found: Callable[[bool], None]) -> None:
        """Ask whether an exchange exists, on a channel of its own, which the broker closes if it does not."""

        def ask(channel: Any) -> None:
            channel.add_on_close_callback(closed)
            channel.exchange_declare(name, passive=True, callback=lambda _: answer(channel))

        def answer(channel: Any) -> None:
            found(True)
            channel.close()

        def closed(_channel: Any, reason: Any) -> None:
            if isinstance(reason, ChannelClosedByBroker):
                found(False)

        self._connection.channel(on_open_callback=ask)

    def _prepare(self, channel: Any) -> None:
        prepare = super()._prepare
        if self._queue is not None:
            channel.queue_declare(self._queue, passive=True, callback=lambda _: prepare(channel))
        elif self._exchange is not None:
            channel.exchange_declare(self._exchange, passive=True, callback=lambda _: prepare(channel))
        else:
            prepare(channel)

    def _ended(self) -> None:
        self._events.ended()

    def _returned(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        returned = Delivery(0, method.exchange, method.routing_key, properties.data, body)
        self._events.came_back(returned, method.reply_code)
