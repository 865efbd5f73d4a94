"""A link on aio-pika's connection, with the parts of the protocol that aio-pika does not expose.

Channel.Flow: aiormq mistakes it for the answer to a call, so the next call on the channel fails. It is intercepted
before the channel sees it, and answered. connection.blocked: aiormq does not expose the reason. Closing by the broker:
aiormq turns the reply code into a class. Frames of these kinds are intercepted where aiormq's connection dispatches
them.
"""

from __future__ import annotations

import asyncio
import platform
import struct
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Final, Protocol

import aio_pika
import aiormq
from aiormq import spec
from aiormq.exceptions import AuthenticationError, InvalidFrameError, ProbableAuthenticationError
from pamqp.header import ContentHeader
from yarl import URL

from penstock.client.core import PRODUCT
from penstock.client.outbox import Message

HANDLERS: Final = {
    "blocked": "_Connection__handle_connection_blocked",
    "unblocked": "_Connection__handle_connection_unblocked",
    "close": "_Connection__handle_close",
}
"""aiormq's methods for frames on channel 0. There is no public way to receive these: the extra limits its version."""


class Listener(Protocol):
    """Receiver of flow control events."""

    def flow(self, active: bool) -> None: ...
    def blocked(self, reason: str) -> None: ...
    def unblocked(self) -> None: ...


class AioLink:
    """One connection with one confirming channel, from `open` until `lost` is done."""

    def __init__(self, url: str, name: str, listener: Listener) -> None:
        """Prepare a connection. `lost` ends with the broker's words as it closed: reply code (0: none) and text.

        ImportError if the version of aiormq is not one that the extra allows, and has other methods.
        """
        check_methods()
        properties: dict[str, Any] = {
            "product": PRODUCT,
            "platform": f"aiormq {version('aiormq')}, Python {platform.python_version()}",
            **({"connection_name": name} if name else {}),
        }
        self.lost: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._listener = listener
        self._connection = aio_pika.Connection(URL(url), client_properties=properties)
        self._channel: aiormq.Channel | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def open(self, seconds: float) -> None:
        """Connect and open the channel. OSError (including TimeoutError) or an error of aiormq's if that fails."""
        await asyncio.wait_for(self._open(), seconds)

    async def _open(self) -> None:
        await self._connection.connect()
        assert self._connection.transport
        transport = self._connection.transport.connection
        self._tap(transport, "blocked", lambda frame: self._listener.blocked(frame.reason))
        self._tap(transport, "unblocked", lambda _: self._listener.unblocked())
        self._tap(transport, "close", lambda frame: self._ended(frame.reply_code or 0, frame.reply_text))
        self._connection.close_callbacks.add(self._closed)
        opened = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        opened.close_callbacks.add(self._closed)
        channel = await opened.get_underlay_channel()
        assert isinstance(channel, aiormq.Channel)
        self._tap_channel(channel)
        self._channel = channel

    async def publish(self, message: Message) -> None:
        """Publish and wait for the confirm. DeliveryError or a subclass if the broker refuses or returns
        the message.
        """
        assert self._channel
        await self._channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.routing_key,
            properties=spec.Basic.Properties(**message.properties),
            mandatory=message.mandatory,
            wait=False,
        )

    async def close(self, seconds: float) -> None:
        """Close in an orderly way if that is possible within `seconds`."""
        try:
            await asyncio.wait_for(self._connection.close(), seconds)
        except (TimeoutError, aiormq.AMQPError, OSError, asyncio.CancelledError) as error:
            self._ended(0, str(error))
        self._ended(0, "closed")

    def _ended(self, code: int, text: str) -> None:
        if not self.lost.done():
            self.lost.set_result((code, text))

    def _closed(self, _: object, error: BaseException | None) -> None:
        self._ended(0, f"{type(error).__name__}: {error}" if error else "closed")

    def _tap(self, connection: Any, what: str, on_frame: Callable[[Any], None]) -> None:
        handle: Callable[[Any], Awaitable[None]] = getattr(connection, HANDLERS[what])

        async def tapped(frame: Any) -> None:
            on_frame(frame)
            await handle(frame)

        setattr(connection, HANDLERS[what], tapped)

    def _tap_channel(self, channel: Any) -> None:
        put = channel.frames.put

        async def tapped(item: tuple[int, Any]) -> None:
            frame = item[1]
            if isinstance(frame, spec.Channel.Flow):
                self._listener.flow(bool(frame.active))
                task = asyncio.ensure_future(channel.rpc(spec.Channel.FlowOk(active=bool(frame.active))))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                return
            if isinstance(frame, spec.Channel.Close):
                self._ended(frame.reply_code or 0, frame.reply_text)
            await put(item)

        channel.frames.put = tapped


def check_methods() -> None:
    """Check that aiormq has the methods of `HANDLERS`. ImportError if not."""
    missing = [handler for handler in HANDLERS.values() if not hasattr(aiormq.Connection, handler)]
    if missing:
        text = f"aiormq {version('aiormq')} has no {', '.join(missing)}"
        raise ImportError(f"{text}: pip install 'penstock[client]' brings a version that has")


def check(exchange: str, routing_key: str, properties: dict[str, Any]) -> None:
    """Check that a publish can be encoded. ValueError or TypeError if not."""
    spec.Basic.Publish(exchange=exchange, routing_key=routing_key).marshal()
    try:
        ContentHeader(properties=spec.Basic.Properties(**properties)).marshal()
    except struct.error as error:
        raise ValueError(f"properties that cannot be encoded: {error}") from error


def refused(error: Exception) -> bool:
    """Whether the broker refuses the connection: a wrong password; a vhost that does not exist, or is not permitted.

    The broker reports the latter by connection.close instead of open-ok, which aiormq reports as an unexpected frame.
    """
    return isinstance(error, (AuthenticationError, ProbableAuthenticationError, InvalidFrameError))
