"""A small AMQP 0-9-1 client at the level of frames, for methods that client libraries would not send, or would hide.

    with Client.connect(address) as client:
        channel = client.channel()
        queue = channel.call("queue.declare", exclusive=True).queue
        channel.publish(b"hello", routing_key=queue)
        channel.call("basic.consume", queue=queue)
        assert channel.take("basic.deliver").body == b"hello"

The client answers nothing by itself: no heartbeat, no flow-ok, no close-ok. Every wait has a deadline.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from tests.frames import (
    BODY,
    CARRIES_CONTENT,
    FRAME_END,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Event,
    frame,
    method_frame,
    parse_header,
    parse_method,
    publish_frames,
    table,
)
from tests.waiting import PATIENCE

T = TypeVar("T")

READ_SIZE = 256 * 1024
LEAVING_SECONDS = 3.0
"""How long a client that is done waits for the broker to read what it has written."""
MIN_FRAME = 4096
"""Frames up to this size are always allowed, regardless of tuning."""
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}
JAVA = {"product": "RabbitMQ", "platform": "Java", "version": "5.20.0"}
"""Client properties of a client that is known to honour channel.flow."""


class Address(NamedTuple):
    """The host and port of a broker."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The AMQP URL, for user guest."""
        return f"amqp://guest:guest@{self.host}:{self.port}/"

    def secured(self, connected: socket.socket) -> socket.socket:
        """Return what clients of this address read and write instead of the connected socket: the socket itself."""
        return connected


class Closed(Exception):
    """The broker closed the channel (`event.name` channel.close) or the connection (connection.close)."""

    def __init__(self, event: Event) -> None:
        super().__init__(f"{event.name}({event.code}, {event.text!r}, {event.class_id}, {event.method_id})")
        self.event = event

    @property
    def code(self) -> int:
        """The reply code."""
        return int(self.event.code)

    @property
    def text(self) -> str:
        """The reply text."""
        return str(self.event.text)


class HungUp(Exception):
    """The broker closed or reset the socket."""


class Client:
    """One connection. Not thread-safe."""

    def __init__(self, address: tuple[str, int], receive_buffer: int = 0) -> None:
        self.socket = self._dial(address, receive_buffer)
        self.frame_max = 131072
        self.server_properties: dict[str, Any] = {}
        self.tune = Event("connection.tune", 0)
        self.heartbeats = 0
        """Heartbeat frames received."""
        self._input = bytearray()
        self._events: dict[int, deque[Event]] = {}
        self._contents: dict[int, tuple[Event, int | None]] = {}
        """The incomplete content of each channel, and the size of its body once known."""
        self._next_channel = 1

    def _dial(self, address: tuple[str, int], receive_buffer: int) -> socket.socket:
        """Return a connected socket."""
        found = socket.socket()
        if receive_buffer:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        found.settimeout(PATIENCE)
        found.connect(address)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return address.secured(found) if isinstance(address, Address) else found

    @classmethod
    def connect(cls, address: tuple[str, int], **options: Any) -> Self:
        """Return a logged-in connection; `options` as for `login`, and receive_buffer."""
        client = cls(address, receive_buffer=options.pop("receive_buffer", 0))
        try:
            client.login(**options)
        except BaseException:
            client.socket.close()
            raise
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection cleanly if the broker answers soon, and the socket in any case: one that is held may not
        be read for a long time.
        """
        if self.socket.fileno() < 0:
            return
        try:
            self.close(LEAVING_SECONDS)
        except (OSError, Closed, HungUp, TimeoutError):
            pass
        finally:
            self.socket.close()

    # --- the connection

    def login(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        mechanism: str = "PLAIN",
        properties: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, bool] = CAPABILITIES,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
    ) -> None:
        """Do the handshake, from the protocol header to open-ok (section 2.2.4). For values left None, the broker's
        offers are used.
        """
        self.write(PROTOCOL_HEADER)
        self.server_properties = self.take("connection.start").server_properties
        client_properties = {
            "product": "penstock tests", **(properties or {}), "capabilities": dict(capabilities)
        }  # fmt: skip
        response = f"\0{user}\0{password}".encode()
        if mechanism == "AMQPLAIN":  # a field table without its length
            response = table({"LOGIN": user, "PASSWORD": password})[4:]
        self.send(
            "connection.start-ok",
            client_properties=client_properties,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )
        self.tune = self.take("connection.tune")
        self.frame_max = self.tune.frame_max if frame_max is None else frame_max
        self.send(
            "connection.tune-ok",
            channel_max=self.tune.channel_max if channel_max is None else channel_max,
            frame_max=self.frame_max,
            heartbeat=heartbeat,
        )
        self.call("connection.open", vhost=vhost)

    def close(self, timeout: float = PATIENCE) -> None:
        """Send connection.close, wait for the answer and close the socket."""
        self.write(method_frame("connection.close", code=200, text="bye"), timeout)
        self.take("connection.close-ok", timeout=timeout)
        self.socket.close()

    def kill(self) -> None:
        """Reset the connection, as a dying client does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def channel(self, number: int = 0) -> Channel:
        """Open a channel and return it; 0 stands for the next number."""
        number = number or self._next_channel
        self._next_channel = number + 1
        self.call("channel.open", number)
        return Channel(self, number)

    def ready(self, events: int, seconds: float) -> int:
        """Return the events (of select.poll) that the socket reports within `seconds`; 0 for none."""
        poll = select.poll()
        poll.register(self.socket, events)
        return sum(shown for _, shown in poll.poll(max(seconds, 0) * 1000))

    # --- out

    def write(self, data: bytes, timeout: float = PATIENCE) -> None:
        """Send bytes as they are, reading what arrives meanwhile, so that neither side waits for the other."""
        view = memoryview(data)
        deadline = time.monotonic() + timeout
        while view:
            ready = self.ready(select.POLLIN | select.POLLOUT, deadline - time.monotonic())
            if ready & select.POLLOUT:
                view = view[self.socket.send(view, socket.MSG_DONTWAIT) :]
            elif ready:
                self.receive()
            else:
                raise TimeoutError(f"{len(view)} bytes not taken by the broker")

    def send(self, name: str, channel: int = 0, **arguments: Any) -> None:
        """Send a method."""
        self.write(method_frame(name, channel, **arguments))

    def heartbeat(self) -> None:
        """Send a heartbeat."""
        self.write(frame(HEARTBEAT, 0, b""))

    # --- in

    def call(self, name: str, channel: int = 0, **arguments: Any) -> Event:
        """Send a method and return its -ok; other events stay in line."""
        self.send(name, channel, **arguments)
        return self.take(f"{name}-ok", channel=channel)

    def take(self, *names: str, channel: int = 0, timeout: float = PATIENCE) -> Event:
        """Remove and return the first event with one of these names on the channel, leaving the others in line.

        Closed if the broker closes the channel or the connection instead, HungUp at the end of the stream, TimeoutError
        if no such event arrives in time.
        """

        def found() -> Event | None:
            line = self.line(channel)
            for event in line:
                if event.name in names:
                    line.remove(event)
                    return event
            closing = next((e for e in (*line, *self.line(0)) if e.name.endswith(".close")), None)
            if closing is not None:
                raise Closed(closing)
            return None

        return self._until(found, f"{' or '.join(names)} on channel {channel}", timeout)

    def next(self, channel: int = 0, timeout: float = PATIENCE) -> Event:
        """Remove and return the next event of the channel."""
        line = self.line(channel)
        return self._until(lambda: line.popleft() if line else None, f"an event on channel {channel}", timeout)

    def pending(self, channel: int = 0) -> list[Event]:
        """Read without waiting; return the events in line on the channel."""
        self.poll()
        return list(self.line(channel))

    def arrived(self) -> list[str]:
        """Return the names of the events in line on all channels, without reading."""
        return [event.name for line in self._events.values() for event in line]

    def poll(self) -> None:
        """Read all that has arrived, without waiting."""
        while self.ready(select.POLLIN, 0):
            self.receive()

    def hung_up(self, timeout: float = PATIENCE) -> bool:
        """Whether the broker closes the socket within `timeout` seconds."""
        try:
            self._until(lambda: None, "end of the stream", timeout)
        except HungUp:
            return True
        except TimeoutError:
            return False
        raise AssertionError("unreachable")

    def read_bytes(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end of the stream, not parsed as frames."""
        while len(self._input) < count:
            data = self.socket.recv(READ_SIZE)
            if not data:
                break
            self._input += data
        taken = bytes(self._input[:count])
        del self._input[:count]
        return taken

    def ended(self, timeout: float = PATIENCE) -> Closed | HungUp:
        """Wait for the broker to end the connection; return how: with connection.close or without."""
        try:
            self.take("nothing", timeout=timeout)
        except (Closed, HungUp) as end:
            return end
        raise AssertionError("unreachable")

    def line(self, channel: int) -> deque[Event]:
        """Return the line of events on the channel itself, not a copy."""
        return self._events.setdefault(channel, deque())

    def _until(self, found: Callable[[], T | None], what: str, timeout: float) -> T:
        deadline = time.monotonic() + timeout
        while True:
            result = found()
            if result is not None:
                return result
            left = deadline - time.monotonic()
            if left <= 0 or not self.ready(select.POLLIN, left):
                lines = {number: [e.name for e in line][:9] for number, line in self._events.items() if line}
                raise TimeoutError(f"no {what} within {timeout:g} s; in line: {lines}")
            self.receive()

    def receive(self) -> None:
        """Read once from the socket, waiting if need be; put complete events in line. HungUp at the end."""
        try:
            data = self.socket.recv(READ_SIZE)
        except ConnectionResetError as error:
            raise HungUp from error
        if not data:
            raise HungUp
        self._input += data
        at = 0
        while len(self._input) - at >= 7:
            kind, channel, size = struct.unpack_from(">BHI", self._input, at)
            if len(self._input) - at < size + 8:
                break
            assert self._input[at + 7 + size] == FRAME_END
            assert not self.frame_max or size + 8 <= max(self.frame_max, MIN_FRAME), f"frame of {size + 8} octets"
            self._frame(kind, channel, bytes(self._input[at + 7 : at + 7 + size]))
            at += size + 8
        del self._input[:at]

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == HEARTBEAT:
            assert (channel, payload) == (0, b"")
            self.heartbeats += 1
        elif kind == METHOD:
            assert channel not in self._contents, "a method inside a content"
            event = parse_method(channel, payload)
            if event.name in CARRIES_CONTENT:
                self._contents[channel] = event, None
            else:
                self.line(channel).append(event)
        else:
            self._content(kind, channel, payload)

    def _content(self, kind: int, channel: int, payload: bytes) -> None:
        event, size = self._contents[channel]
        if size is None:
            assert kind == HEADER
            size, event.properties = parse_header(payload)
        else:
            assert kind == BODY and payload
            event.body += payload
        assert len(event.body) <= size
        if len(event.body) == size:
            del self._contents[channel]
            self.line(channel).append(event)
        else:
            self._contents[channel] = event, size


class Channel:
    """One channel of a `Client`: the same methods, with the channel number filled in."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number

    def send(self, name: str, **arguments: Any) -> None:
        """Send a method."""
        self.client.send(name, self.number, **arguments)

    def call(self, name: str, **arguments: Any) -> Event:
        """Send a method and return its -ok."""
        return self.client.call(name, self.number, **arguments)

    def take(self, *names: str, timeout: float = PATIENCE) -> Event:
        """Remove and return the first event with one of these names."""
        return self.client.take(*names, channel=self.number, timeout=timeout)

    def next(self, timeout: float = PATIENCE) -> Event:
        """Remove and return the next event."""
        return self.client.next(self.number, timeout)

    def pending(self) -> list[Event]:
        """Return the events in line."""
        return self.client.pending(self.number)

    def publish(
        self, body: bytes, routing_key: str = "", exchange: str = "", mandatory: bool = False, **properties: Any
    ) -> None:
        """Publish a message."""
        self.client.write(
            publish_frames(
                self.number, body, exchange, routing_key, mandatory, self.client.frame_max or 131072, **properties
            )
        )

    def get(self, queue: str, no_ack: bool = True) -> Event | None:
        """Get a message; None from an empty queue."""
        self.send("basic.get", queue=queue, no_ack=no_ack)
        event = self.take("basic.get-ok", "basic.get-empty")
        return event if event.name == "basic.get-ok" else None

    def depth(self, queue: str) -> int:
        """Return the number of ready messages, by a passive declare."""
        return int(self.call("queue.declare", queue=queue, passive=True).messages)

    def closed(self, timeout: float = PATIENCE) -> Closed:
        """Wait for the broker to close this channel or the connection; return how. Answer a channel.close."""
        try:
            self.take("nothing", timeout=timeout)
        except Closed as closed:
            if closed.event.name == "channel.close":
                self.client.line(self.number).remove(closed.event)
                self.send("channel.close-ok")
            return closed
        raise AssertionError("unreachable")
