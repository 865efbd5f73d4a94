"""The broker's side of a producer's connection, played by the test: `penstock.client` over a real socket.

    with Listener() as listener, ThreadPoolExecutor() as threads:
        made = threads.submit(Producer, listener.url)
        peer = listener.accept()
        producer = made.result()

After the handshake the peer answers nothing by itself, and expects events in exactly the order in which a test takes
them.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from tests.frames import (
    BODY,
    FRAME_END,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Event,
    frame,
    header_frame,
    method_frame,
    parse_header,
    parse_method,
)
from tests.waiting import PATIENCE


class Peer:
    """One connection. Not to be used by several threads at once."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(PATIENCE)
        self._input = connection.makefile("rb")
        self.client_properties: dict[str, Any] = {}

    def start(self) -> None:
        """Do the handshake up to the producer's login."""
        assert self._input.read(len(PROTOCOL_HEADER)) == PROTOCOL_HEADER
        capabilities = {"publisher_confirms": True, "basic.nack": True, "connection.blocked": True}
        properties = {"product": "a test", "capabilities": capabilities}
        self.send("connection.start", minor=9, server_properties=properties, mechanisms="PLAIN", locales="en_US")
        self.client_properties = self.take("connection.start-ok").client_properties

    def greet(self) -> None:
        """Do the handshake up to connection.tune-ok."""
        self.start()
        self.send("connection.tune", channel_max=2047, frame_max=131072)
        self.take("connection.tune-ok")

    def open(self) -> None:
        """Do the whole handshake, and open the channel."""
        self.greet()
        self.take("connection.open")
        self.send("connection.open-ok")
        self.open_channel()

    def open_channel(self, number: int = 1) -> None:
        """Open the channel for confirms."""
        self.take("channel.open")
        self.send("channel.open-ok", number)
        self.take("confirm.select")
        self.send("confirm.select-ok", number)

    def send(self, name: str, channel: int = 0, **arguments: Any) -> None:
        """Send a method."""
        self.socket.sendall(method_frame(name, channel, **arguments))

    def give_back(self, publish: Event, code: int, text: str, **headers: Any) -> None:
        """Send a publish back to the producer."""
        properties = {**publish.properties, "headers": headers}
        where = {"exchange": publish.exchange, "routing_key": publish.routing_key}
        self.socket.sendall(
            method_frame("basic.return", 1, code=code, text=text, **where)
            + header_frame(1, len(publish.body), properties)
            + (frame(BODY, 1, publish.body) if publish.body else b"")
        )

    def take(self, name: str) -> Event:
        """Read the next event, with its content; AssertionError if it has another name."""
        kind, channel, payload = self._frame()
        assert kind == METHOD, kind
        event = parse_method(channel, payload)
        assert event.name == name, f"{event} in place of {name}"
        if name == "basic.publish":
            kind, _, payload = self._frame()
            assert kind == HEADER
            size, event.properties = parse_header(payload)
            while len(event.body) < size:
                event.body += self._frame()[2]
        return event

    def take_bodies(self, count: int) -> list[bytes]:
        """Read publishes; return their bodies."""
        return [self.take("basic.publish").body for _ in range(count)]

    def part(self) -> None:
        """Answer the producer's connection.close, and a channel.close before it."""
        while True:
            kind, channel, payload = self._frame()
            event = parse_method(channel, payload) if kind == METHOD else None
            if event is not None and event.name in ("channel.close", "connection.close"):
                self.send(f"{event.name}-ok", channel)
                if event.name == "connection.close":
                    return

    def drop(self) -> None:
        """Close the socket without a word."""
        self._input.close()
        self.socket.close()

    def _frame(self) -> tuple[int, int, bytes]:
        while True:
            head = self._input.read(7)
            if len(head) < 7:
                raise EOFError("the producer has closed the socket")
            kind, channel, size = struct.unpack(">BHI", head)
            payload = self._input.read(size)
            assert self._input.read(1) == bytes([FRAME_END])
            if kind != HEARTBEAT:
                return kind, channel, payload


class Listener:
    """A socket that producers connect to."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(PATIENCE)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.url = f"amqp://guest:guest@{self.address}/"
        self._peers: list[Peer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._peers:
            peer.drop()
        self.socket.close()

    def connection(self) -> Peer:
        """Accept the next connection, and read nothing from it."""
        self._peers.append(Peer(self.socket.accept()[0]))
        return self._peers[-1]

    def accept(self) -> Peer:
        """Accept the next connection, and open its channel."""
        peer = self.connection()
        peer.open()
        return peer
