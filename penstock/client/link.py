"""A connection with one confirming channel, on pika's I/O loop; it reconnects after a loss.

    connecting ──▶ channel opening ──▶ up ──channel closed by the broker──▶ channel opening
        ▲                                └──connection lost──▶ waiting ──▶ connecting

All of it runs in the thread of the loop. Events are reported to the `Listener`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

import pika
from pika.adapters.select_connection import IOLoop
from pika.exceptions import (
    AuthenticationError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from penstock.client.core import INNOCENT, PRODUCT
from penstock.client.options import Options
from penstock.client.outbox import Message

CLOSE_SECONDS: Final = 5.0
"""How long the broker may take to answer connection.close: it may not be reading the socket while it is paused."""

HOPELESS: Final = (AuthenticationError, ProbableAccessDeniedError, ProbableAuthenticationError)
"""pika's exceptions for a connection that ends during the handshake, whether or not the broker has refused it."""


class Listener(Protocol):
    """Receiver of the link's events."""

    def up(self) -> None: ...
    def down(self, code: int, text: str) -> None: ...
    def hopeless(self, text: str) -> None: ...
    def flow(self, active: bool) -> None: ...
    def blocked(self, reason: str) -> None: ...
    def unblocked(self) -> None: ...
    def returned(
        self, message_id: str, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]
    ) -> None: ...
    def settled(self, tag: int, multiple: bool, taken: bool) -> None: ...


class Link:
    """The connection; made once, run by one thread. Links that have one `loop` share the thread."""

    connection_type: ClassVar[Any] = pika.SelectConnection

    def __init__(self, parameters: Any, options: Options, listener: Listener, loop: Any = None) -> None:
        self.loop: Any = loop or IOLoop()
        self._parameters = parameters
        self._options = options
        self._listener = listener
        self._connection: Any = None
        self._channel: Any = None
        self._attempt = 0
        self._down_since = time.monotonic()
        self._closing = False
        self._was_up = False

    def call(self, callback: Callable[[], None]) -> None:
        """Schedule a callback in the loop's thread; callable from any thread."""
        self.loop.add_callback_threadsafe(callback)

    def run(self) -> None:
        """Serve until `close`; the body of the loop's thread."""
        self.start()
        try:
            self.loop.start()
        finally:
            self.loop.close()

    def start(self) -> None:
        """Connect, once the loop runs."""
        self.call(self._connect)

    def publish(self, message: Message) -> None:
        """Publish a message on the open channel."""
        self._channel.basic_publish(
            message.exchange,
            message.routing_key,
            message.body,
            pika.BasicProperties(**message.properties),
            mandatory=message.mandatory,
        )

    def proven(self) -> None:
        """Reset the delays between attempts, as the broker has confirmed a message."""
        self._attempt = 0

    def close(self) -> None:
        """Close the connection and stop the loop."""
        self._closing = True
        if self._connection is None or not self._connection.is_open:
            self._ended()
            return
        self._connection.close()
        self.loop.call_later(CLOSE_SECONDS, self._ended)

    def _ended(self) -> None:
        """Handle the end of the connection, or of the time that closing it may take."""
        self.loop.stop()

    def _connect(self) -> None:
        if not self._closing:
            self._connection = self.connection_type(
                self._parameters, self._opened, self._not_opened, self._closed, custom_ioloop=self.loop
            )

    def _opened(self, connection: Any) -> None:
        if self._closing:
            self.close()
            return
        connection.add_on_connection_blocked_callback(
            lambda _, frame: self._listener.blocked(_text(frame.method.reason))
        )
        connection.add_on_connection_unblocked_callback(lambda _, frame: self._listener.unblocked())
        self._open_channel()

    def _open_channel(self) -> None:
        if self._connection.is_open:
            self._connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        self._was_up = True
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._returned)
        channel.add_on_flow_callback(self._flow)
        self._prepare(channel)

    def _prepare(self, channel: Any) -> None:
        """Ask for all that a new channel needs before it is up."""
        channel.confirm_delivery(self._settled, callback=lambda _: self._listener.up())

    def _flow(self, frame: Any) -> None:
        self._listener.flow(frame.method.active)
        # pika does not send the answer that the specification requires (channel.flow-ok).
        self._channel._send_method(pika.spec.Channel.FlowOk(active=frame.method.active))

    def _returned(self, _channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        self._listener.returned(
            properties.message_id or "",
            method.reply_code,
            method.reply_text,
            method.exchange,
            method.routing_key,
            properties.headers or {},
        )

    def _settled(self, frame: Any) -> None:
        self._listener.settled(
            frame.method.delivery_tag, frame.method.multiple, isinstance(frame.method, pika.spec.Basic.Ack)
        )

    def _channel_closed(self, _channel: Any, reason: Any) -> None:
        """Reopen a channel that the broker closed. `_closed` handles the loss of a connection, which closes its
        channels too.
        """
        if not isinstance(reason, ChannelClosedByBroker) or self._closing:
            return
        self._down_since = time.monotonic()
        self._listener.down(reason.reply_code, reason.reply_text)
        delay = 0.0
        if reason.reply_code in INNOCENT:
            delay = self._options.delay(self._attempt)
            self._attempt += 1
        self.loop.call_later(delay, self._open_channel)

    def _closed(self, _connection: Any, reason: Any) -> None:
        if self._closing:
            self._ended()
            return
        self._down_since = time.monotonic()
        by_broker = isinstance(reason, ConnectionClosedByBroker)
        code, text = (reason.reply_code, reason.reply_text) if by_broker else (0, said(reason))
        self._listener.down(code, text)
        self._reconnect_later()

    def _not_opened(self, _connection: Any, error: Any) -> None:
        text = said(error)
        if not self._was_up and isinstance(_cause(error), HOPELESS) and ConnectionClosedByBroker.__name__ in text:
            self._listener.hopeless(text)
        else:
            self._listener.down(0, text)
        self._reconnect_later()

    def _reconnect_later(self) -> None:
        limit = self._options.give_up_seconds
        if limit is not None and time.monotonic() - self._down_since > limit:
            self._listener.hopeless(f"no connection for {limit:g} s")
        if not self._closing:
            self.loop.call_later(self._options.delay(self._attempt), self._connect)
            self._attempt += 1


def parameters_of(url: str, name: str) -> Any:
    """pika's parameters for an AMQP URL, with the client properties that identify the producer."""
    parameters = pika.URLParameters(url)
    python = f"Python {platform.python_version()}"
    parameters.client_properties = {
        "product": PRODUCT,
        "platform": f"pika {pika.__version__}, {python}",
        **({"connection_name": name} if name else {}),
    }
    return parameters


def _text(data: str | bytes) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data


def _cause(error: BaseException) -> BaseException:
    """Unwrap the original error: pika wraps it several times over."""
    while True:
        inner = [*getattr(error, "exceptions", ()), getattr(error, "exception", None), *error.args]
        found = next((each for each in inner if isinstance(each, Exception)), None)
        if found is None:
            return error
        error = found


def said(error: BaseException) -> str:
    """The original cause of a pika error, for people."""
    cause = _cause(error)
    return f"{type(cause).__name__}: {cause}"
