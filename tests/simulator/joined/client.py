"""A client of one acceptor, with its socket: bytes go to the connection's core and come from it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from acceptor.amqp.connection import Connection
from acceptor.clients import channel_stage
from acceptor.clients.connection_stage import OPEN, ConnectionStage
from acceptor.clients.connection_state import ConnectionState
from acceptor.core import AcceptorCore
from tests.frames import (
    BODY,
    CARRIES_CONTENT,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Event,
    method_frame,
    parse_header,
    parse_method,
    publish_frames,
)

WRITE_HIGH_BYTES = 32 * 1024
"""Bytes that may wait for a client that reads nothing before its acceptor is informed."""


class Written(NamedTuple):
    """Bytes that a client has written to a channel, and a function to call when they are read; `opens`: they open the
    channel.
    """

    data: bytes
    when_read: Callable[[], None] | None
    channel: int
    opens: bool


class ClientNode(Protocol):
    """The node of a client."""

    now: float
    clients: dict[ConnectionState, Client]

    def core(self, acceptor: int) -> AcceptorCore:
        """Return the core of a running acceptor."""

    def settle(self, rechecks: int = 0) -> None:
        """Take steps until nothing moves."""


class Socket:
    """A socket that records the calls of its connection. While it is paused, `drips` bytes may still be read.
    `on_close` is called when the broker closes it.
    """

    def __init__(self) -> None:
        self.reads = True
        self.drips = 0
        self.pauses = 0
        self.receive_buffer = 0
        self.write_buffer = 0
        self.overfull = False
        self.filled = False
        self.waits = 0
        self.closed = False
        self.on_close: Callable[[], None] = lambda: None

    def pause_reading(self) -> None:
        self.pauses += 1
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True
        self.drips = 0

    def drip(self, nbytes: int) -> None:
        self.drips = nbytes

    def limit_receive_buffer(self, nbytes: int) -> None:
        self.receive_buffer = nbytes

    def limit_write_buffer(self, nbytes: int) -> None:
        self.write_buffer = nbytes

    def is_overfull(self) -> bool:
        return self.overfull

    def is_filled(self) -> bool:
        return self.filled

    def unsent(self) -> int:
        return self.waits

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.on_close()

    def lets(self, nbytes: int) -> int:
        """Return how many of `nbytes` bytes may be read now."""
        if self.closed:
            return 0
        return nbytes if self.reads else min(nbytes, self.drips)


class Client:
    """A client of one acceptor. Its output stays in `unread` until the acceptor reads it, up to `most` bytes at once.
    `fills`: unread output fills the kernel's buffer.

    `largest_charge` is the largest increase, by one read, of the memory kept for the client. A `deaf` client reads
    nothing: its input collects in `untaken`. One that does not read contents gets methods alone.
    """

    def __init__(
        self,
        node: ClientNode,
        acceptor: int,
        properties: dict[str, Any],
        capabilities: dict[str, bool],
        user: str = "guest",
    ) -> None:
        self.node = node
        self.acceptor = acceptor
        self.user = user
        self.socket = Socket()
        self.properties = {"product": "penstock tests", **properties, "capabilities": capabilities}
        self.connection: Connection = node.core(acceptor).connect(self.socket, "127.0.0.1:49152", "127.0.0.1")
        self.unread: deque[Written] = deque()
        self.rest = b""
        self.events: dict[int, deque[Event]] = defaultdict(deque)
        self.heartbeats = 0
        self.data = b""
        self.header = b""
        self.content: dict[int, tuple[Event, int | None]] = {}
        self.on_event: Callable[[Event], bool] = lambda event: False
        self.most = 1 << 30
        self.fills = False
        self.largest_charge = 0
        self.deaf = False
        self.reads_contents = True
        self.untaken = b""
        self.on_unheard_close: Callable[[], None] = lambda: None
        """Called when the broker closes the connection and the client is deaf."""

    # Out

    def write(
        self, data: bytes, when_read: Callable[[], None] | None = None, channel: int = 0, opens: bool = False
    ) -> None:  # fmt: skip
        """Write bytes; `when_read` is called when the acceptor has read them, unless it ignores that channel."""
        self.unread.append(Written(data, when_read, channel, opens))
        self.check_buffer()

    def check_buffer(self) -> None:
        """Update whether the kernel's buffer is full."""
        if self.fills:
            self.socket.filled = bool(self.unread)

    def send(self, name: str, channel: int = 0, when_read: Callable[[], None] | None = None, **arguments: Any) -> None:
        """Write a method."""
        self.write(method_frame(name, channel, **arguments), when_read, channel, name == "channel.open")

    def publish(
        self, channel: int, body: bytes, exchange: str = "", routing_key: str = "",
        when_read: Callable[[], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Write a publish with its content."""
        self.write(publish_frames(channel, body, exchange, routing_key, **options), when_read, channel)

    def log_in(self, vhost: str = "/", heartbeat: int = 0) -> None:
        """Write the whole handshake."""
        self.write(PROTOCOL_HEADER)
        self.send(
            "connection.start-ok", client_properties=self.properties, mechanism="PLAIN",
            response=b"\0%s\0guest" % self.user.encode(), locale="en_US",
        )  # fmt: skip
        self.send("connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=heartbeat)
        self.send("connection.open", vhost=vhost)

    def call(self, name: str, channel: int = 0, **arguments: Any) -> Event:
        """Send a method, let everything settle, and return its -ok. AssertionError with the events if there is none."""
        self.send(name, channel, **arguments)
        self.node.settle()
        return self.take(f"{name}-ok", channel)

    # In

    def take(self, name: str, channel: int = 0) -> Event:
        """Remove and return the first event with a name on a channel, leaving other events in line."""
        line = self.events[channel]
        for event in line:
            if event.name == name:
                line.remove(event)
                return event
        raise AssertionError(f"no {name} on channel {channel} but {[*line]}, on channel 0 {[*self.events[0]]}")

    def names(self, channel: int = 0) -> list[str]:
        """Return the names of the remaining events on a channel."""
        return [event.name for event in self.events[channel]]

    def read(self, most: int = 1 << 30) -> bool:
        """Have the acceptor read up to `most` bytes; return whether it did. Bytes it does not use stay in `rest`."""
        core = self.node.core(self.acceptor)
        most = self.socket.lets(min(most, self.most))
        if not self.unread or not most or core.state.behind():
            return False
        pieces, nbytes, done = [self.rest], 0, []
        while self.unread and nbytes < most:
            written = self.unread.popleft()
            data = written.data[: most - nbytes]
            pieces.append(data)
            nbytes += len(data)
            if data == written.data:
                done.append(written)
            else:
                self.unread.appendleft(written._replace(data=written.data[len(data) :]))
        self.socket.drips = 0
        self.check_buffer()
        self.note_read(done)
        core.state.now = self.node.now
        buffer = bytearray(b"".join(pieces))
        before = self.connection.kept.held
        used = self.connection.receive(buffer, len(buffer))
        self.largest_charge = max(self.largest_charge, self.connection.kept.held - before)
        self.rest = bytes(buffer[used:])
        return True

    def note_read(self, done: list[Written]) -> None:
        """Call the `when_read` of writes that the acceptor reads now, unless it ignores their channel."""
        if self.connection.stage is not OPEN:
            return
        opened = set()
        for _, when_read, number, opens in done:
            if opens:
                opened.add(number)
            channel = self.connection.channels.get(number)
            heeded = number in opened or channel is None or channel.stage is channel_stage.OPEN
            if when_read is not None and heeded:
                when_read()

    def take_bytes(self, chunks: list[Any]) -> None:
        """Receive bytes at the socket; process them at once unless the client is deaf."""
        if not self.deaf:
            self.on_bytes(chunks)
            return
        self.untaken += b"".join(chunks)
        self.socket.waits = len(self.untaken)
        core = self.node.core(self.acceptor)
        if self.connection.writable and self.socket.waits > WRITE_HIGH_BYTES:
            core.delivery.writable(self.connection, False)
        if not self.connection.writable:
            core.budgets.outputs.wrote(self.connection)
        if self.connection.stage is ConnectionStage.CLOSING:
            self.on_unheard_close()

    def listen(self, most: int = 1 << 30) -> None:
        """Read up to `most` of the bytes that wait for the client; once all are read, it is no longer deaf."""
        taken, self.untaken = self.untaken[:most], self.untaken[most:]
        self.socket.waits = len(self.untaken)
        self.on_bytes([taken])
        if not self.untaken:
            self.deaf = False
            if not self.connection.writable:
                self.node.core(self.acceptor).delivery.writable(self.connection, True)

    def on_bytes(self, chunks: list[Any]) -> None:
        """Process bytes from the acceptor: whole frames, or parts of them."""
        self.data += b"".join(chunks)
        if len(self.header) < 8 and self.data.startswith(b"AMQP"):
            self.header, self.data = self.data[:8], self.data[8:]
        at = 0
        while len(self.data) - at >= 8:
            kind, channel = self.data[at], int.from_bytes(self.data[at + 1 : at + 3], "big")
            size = int.from_bytes(self.data[at + 3 : at + 7], "big")
            if len(self.data) - at < size + 8:
                break
            self.frame(kind, channel, self.data[at + 7 : at + 7 + size])
            at += size + 8
        self.data = self.data[at:]

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Process a frame."""
        if kind == METHOD:
            event = parse_method(channel, payload)
            if event.name in CARRIES_CONTENT and self.reads_contents:
                self.content[channel] = event, None
            else:
                self.arrived(event)
        elif kind in (HEADER, BODY) and self.reads_contents:
            event, size = self.content.pop(channel)
            if kind == HEADER:
                size, event.properties = parse_header(payload)
            else:
                event.body += payload
            if len(event.body) == size:
                self.arrived(event)
            else:
                self.content[channel] = event, size
        elif kind == HEARTBEAT:
            self.heartbeats += 1

    def arrived(self, event: Event) -> None:
        """Keep an event unless `on_event` handles it."""
        if not self.on_event(event):
            self.events[event.channel].append(event)

    def lose(self) -> None:
        """Lose the socket."""
        self.socket.closed = True
        self.node.clients.pop(self.connection, None)
        self.node.core(self.acceptor).state.dirty.pop(self.connection, None)
        self.connection.lost()
