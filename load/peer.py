"""A connection on a non-blocking bare socket, and the client library whose behaviour it imitates.

How each library reacts to a stop was measured: see the table of clients in `docs/flow-holding.md`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from load.target import Target
from load.wire import FRAME_END, FRAME_OVERHEAD, HEARTBEAT_FRAME, METHOD_FRAME, Method, Wire

READ_BYTES: Final = 65536
CAPABILITIES: Final = ("publisher_confirms", "basic.nack", "connection.blocked")

BASIC_DELIVER: Final[Method] = (60, 60)
BASIC_NACK: Final[Method] = (60, 120)
CHANNEL_FLOW: Final[Method] = (20, 20)
CHANNEL_FLOW_OK: Final[Method] = (20, 21)


@dataclass(frozen=True)
class Kind:
    """How a client library reacts to being held.

    `user_timeout`: its kernel gives up a connection after that many milliseconds without progress; `write_seconds`:
    the library gives up when a write has waited that long. With `honours_flow` Channel.Flow stops its publishes, with
    `answers_flow` it sends flow-ok, with `breaks_on_flow` it loses its connection. `reads_blocked`: it reads while a
    write waits. `buffers`: no write waits; the library keeps in memory what the socket does not accept.
    """

    name: str
    properties: dict[str, str]
    user_timeout: int = 0
    write_seconds: float = 0.0
    honours_flow: bool = False
    answers_flow: bool = False
    breaks_on_flow: bool = False
    reads_blocked: bool = True
    buffers: bool = False


JAVA: Final = Kind(
    "java", {"product": "RabbitMQ", "platform": "Java", "version": "5.20.0"}, honours_flow=True, answers_flow=True
)
DOTNET: Final = Kind(
    "dotnet", {"product": "RabbitMQ", "platform": ".NET", "version": "7.0.0"}, honours_flow=True, answers_flow=True
)
PIKA: Final = Kind("pika", {"product": "Pika Python Client Library", "platform": "Python", "version": "1.3.2"})
PY_AMQP: Final = Kind(
    "py-amqp", {"product": "py-amqp", "version": "5.4.2"}, user_timeout=1000, answers_flow=True, reads_blocked=False
)
AMQPLIB: Final = Kind(
    "amqplib", {"product": "amqplib", "platform": "Node.JS", "version": "0.10.4"}, breaks_on_flow=True, buffers=True
)
PHP: Final = Kind("php", {"product": "AMQPLib", "platform": "PHP", "version": "3.7"}, write_seconds=3.0)
GO: Final = Kind("go", {"product": "AMQP 0.9.1 Client", "platform": "golang", "version": "1.16"}, write_seconds=15.0)
UNKNOWN: Final = Kind("unknown", {"product": "anyone"})


def wire_of(target: Target, kind: Kind) -> Wire:
    """Open a connection with one channel, as a client of that kind."""
    wire = Wire(target, capabilities=CAPABILITIES, properties=kind.properties)
    if kind.user_timeout:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, kind.user_timeout)
    return wire


HEARTBEAT = struct.pack("!BHI", HEARTBEAT_FRAME, 0, 0) + FRAME_END


class Peer:
    """A connection that reads methods and writes without blocking. `heartbeats` counts those received."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.socket = wire.socket
        self.received = bytearray(wire.received)
        self.pending = memoryview(b"")
        self.heartbeats = 0
        self.socket.setblocking(False)

    def methods(self) -> Iterator[tuple[Method, bytes]]:
        """Yield the methods received (`methods_of_channels`), of all channels."""
        for _, method, arguments in self.methods_of_channels():
            yield method, arguments

    def methods_of_channels(self) -> Iterator[tuple[int, Method, bytes]]:
        """Yield channel, method and arguments of the frames received, those left over from the handshake first.
        ConnectionError if the broker hung up.
        """
        try:
            data = self.socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError("the broker hung up")
        except BlockingIOError:
            data = b""
        self.received += data
        at = 0
        while len(self.received) - at >= FRAME_OVERHEAD:
            kind, channel, size = struct.unpack_from("!BHI", self.received, at)
            if len(self.received) - at < size + FRAME_OVERHEAD:
                break
            if kind == METHOD_FRAME:
                payload = bytes(self.received[at + 7 : at + 7 + size])
                yield channel, struct.unpack_from("!HH", payload), payload[4:]
            elif kind == HEARTBEAT_FRAME:
                self.heartbeats += 1
            at += size + FRAME_OVERHEAD
        del self.received[:at]

    def send(self, data: bytes = b"") -> int:
        """Append `nbytes` to the pending bytes and write what the socket accepts; return how many bytes it accepted."""
        if data:
            self.pending = memoryview(bytes(self.pending) + data)
        try:
            sent = self.socket.send(self.pending)
        except BlockingIOError:
            return 0
        self.pending = self.pending[sent:]
        return sent


def delivery_tag(arguments: bytes) -> int:
    """Return the delivery tag of a basic.deliver."""
    at = 1 + arguments[0]
    return int.from_bytes(arguments[at : at + 8], "big")


def settled_up_to(arguments: bytes) -> tuple[int, bool]:
    """Return delivery tag and multiple of a basic.ack or basic.nack."""
    return int.from_bytes(arguments[:8], "big"), bool(arguments[8] & 1)
