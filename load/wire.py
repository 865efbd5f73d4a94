"""AMQP connections on bare sockets, opened and closed as cheaply as Python can, so that the broker is the limit.

The handshake follows the specification (AMQP 0-9-1, section 2.2.4, connection negotiation), with no checks beyond "is
this the expected method". Frames are built by hand, so that a benchmark does not share the broker's codec.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

from load.target import Target
from load.tls import client_context

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME: Final = 1
HEARTBEAT_FRAME: Final = 8
FRAME_END: Final = b"\xce"
FRAME_OVERHEAD: Final = 8
MEBIBYTE: Final = 1024 * 1024

CONNECTION_START: Final = (10, 10)
CONNECTION_START_OK: Final = (10, 11)
CONNECTION_TUNE: Final = (10, 30)
CONNECTION_TUNE_OK: Final = (10, 31)
CONNECTION_OPEN: Final = (10, 40)
CONNECTION_OPEN_OK: Final = (10, 41)
CONNECTION_CLOSE: Final = (10, 50)
CONNECTION_CLOSE_OK: Final = (10, 51)
CHANNEL_OPEN: Final = (20, 10)
CHANNEL_OPEN_OK: Final = (20, 11)

CLIENT_PROPERTIES: Final = {
    "product": "penstock load",
    "version": "1",
    "platform": "Python",
    "information": "opens and closes connections to measure what that costs",
    "connection_name": "load benchmark",
}
"""About as much as client libraries send: brokers keep the properties as long as the connection is open."""

Method = tuple[int, int]


class Refused(ConnectionError):
    """The broker answered with something other than the handshake expects."""


def method_frame(channel: int, method: Method, arguments: bytes = b"") -> bytes:
    """Encode one frame: type, channel, size, class and method id, arguments, end."""
    payload = struct.pack("!HH", *method) + arguments
    return struct.pack("!BHI", METHOD_FRAME, channel, len(payload)) + payload + FRAME_END


def short_string(text: str) -> bytes:
    """Encode a short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long_string(data: bytes) -> bytes:
    """Encode a long string."""
    return struct.pack("!I", len(data)) + data


def table(texts: dict[str, str], capabilities: Sequence[str] = ()) -> bytes:
    """Encode a field table of long strings, plus capabilities if there are any."""
    fields = [short_string(name) + b"S" + long_string(text.encode()) for name, text in texts.items()]
    if capabilities:
        flags = b"".join(short_string(name) + b"t\1" for name in capabilities)
        fields.append(short_string("capabilities") + b"F" + long_string(flags))
    return long_string(b"".join(fields))


def dial(target: Target, timeout: float) -> socket.socket:
    """Return a connected socket, with TLS if the target has it. OSError if there is no broker."""
    plain = socket.create_connection((target.host, target.port), timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client_context(target.authority).wrap_socket(plain, server_hostname=target.host) if target.tls else plain
    except BaseException:
        plain.close()
        raise


def check(target: Target) -> None:
    """Raise ConnectionError, with the broker's name, unless a connection can be opened and closed."""
    try:
        Wire(target).close()
    except OSError as error:
        raise ConnectionError(f"{target}: {error}") from None


class Wire:
    """A connected socket that has completed the handshake, with channels 1 … `channels` open."""

    __slots__ = ("_received", "socket")

    def __init__(
        self, target: Target, channels: int = 1, timeout: float = 30.0, capabilities: Sequence[str] = (),
        properties: dict[str, str] | None = None, through: socket.socket | None = None,
    ) -> None:  # fmt: skip
        """Connect, unless there is a connected socket to go through, and open. OSError if there is no broker, `Refused`
        if it rejects the connection.
        """
        self._received = b""
        self.socket = dial(target, timeout) if through is None else through
        self.socket.settimeout(timeout)
        try:
            self._open(target, channels, table(properties or CLIENT_PROPERTIES, capabilities))
        except BaseException:
            self.socket.close()
            raise

    def _open(self, target: Target, channels: int, properties: bytes) -> None:
        send: Callable[[bytes], None] = self.socket.sendall
        send(PROTOCOL_HEADER)
        self._expect(CONNECTION_START)
        response = b"\0" + target.user.encode() + b"\0" + target.password.encode()
        start_ok = properties + short_string("PLAIN") + long_string(response) + short_string("en_US")
        send(method_frame(0, CONNECTION_START_OK, start_ok))
        offered = self._expect(CONNECTION_TUNE)  # accepted as offered, including the heartbeat
        send(
            method_frame(0, CONNECTION_TUNE_OK, offered)
            + method_frame(0, CONNECTION_OPEN, short_string(target.vhost) + short_string("") + b"\0")
            + b"".join(method_frame(number, CHANNEL_OPEN, short_string("")) for number in range(1, channels + 1))
        )
        self._expect(CONNECTION_OPEN_OK)
        for _ in range(channels):
            self._expect(CHANNEL_OPEN_OK)

    def close(self) -> None:
        """Close in order: connection.close, close-ok, then the socket."""
        try:
            arguments = struct.pack("!H", 200) + short_string("done") + struct.pack("!HH", 0, 0)
            self.socket.sendall(method_frame(0, CONNECTION_CLOSE, arguments))
            self._expect(CONNECTION_CLOSE_OK)
        finally:
            self.socket.close()

    def call(self, method: Method, arguments: bytes, answer: Method, channel: int = 1) -> bytes:
        """Send a method and return the arguments of its answer, which has to be the next frame."""
        self.socket.sendall(method_frame(channel, method, arguments))
        return self._expect(answer)

    @property
    def received(self) -> bytes:
        """The bytes received after the last answer."""
        return self._received

    def _expect(self, method: Method) -> bytes:
        """Return the arguments of the next frame other than a heartbeat. `Refused` if it is not this method."""
        kind, payload = HEARTBEAT_FRAME, b""
        while kind == HEARTBEAT_FRAME:
            head = self._read(FRAME_OVERHEAD - 1)
            kind, _channel, size = struct.unpack("!BHI", head)
            if head[:4] == b"AMQP" or size > MEBIBYTE:
                raise Refused(f"not AMQP 0-9-1: {head!r}")
            payload = self._read(size + 1)
        if kind != METHOD_FRAME or struct.unpack_from("!HH", payload) != method:
            raise Refused(f"wanted method {method}, got frame of type {kind}: {payload[:120]!r}")
        return payload[4:-1]

    def _read(self, count: int) -> bytes:
        while len(self._received) < count:
            more = self.socket.recv(65536)
            if not more:
                raise Refused("the broker hung up in the handshake")
            self._received += more
        piece, self._received = self._received[:count], self._received[count:]
        return piece
