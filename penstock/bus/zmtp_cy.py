# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""ZMTP 3.0, the protocol between ZeroMQ sockets, without I/O: greeting, NULL handshake, messages (RFC 23).

One side of one connection, for DEALER and ROUTER sockets in the loop of a process. The threads of libzmq cost four
wake-ups a round trip; a turn that the loop writes and reads itself costs none of them.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.pointers import address_of_bytearray, copy, load64, read_bytes

    MORE = 1
    LONG = 2
    COMMAND = 4
    GREETING_BYTES = 64
    # A partly received frame of this size or larger is read into a buffer of its own.
    LARGE_BYTES = 32 * 1024
    FRAME_BYTES_MAX = 0x7FFFFFFF

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
# The parts of a greeting that matter: signature, major version, mechanism.
_SIGNATURE_END = 0x7F
_MAJOR = 3
_MECHANISM = slice(12, 32)

SCRATCH_BYTES = 512 * 1024
"""The maximum size of one read, in bytes."""
LARGE = LARGE_BYTES
"""A partly received frame of this size or larger is read into a buffer of its own."""
HEAD_MAX = 9
"""The maximum size of a frame's head, in bytes."""
FRAME_MAX = FRAME_BYTES_MAX
"""The maximum size of a frame, in bytes; a peer that announces more is refused."""


class ZmtpError(Exception):
    """The peer does not speak ZMTP 3 with the NULL mechanism, or refuses the connection."""


def ready(socket_type: str, identity: bytes = b"") -> bytes:
    """The command that ends this side's handshake. A ROUTER knows a DEALER by its identity."""
    body = b"\x05READY" + _property(b"Socket-Type", socket_type.encode()) + _property(b"Identity", identity)
    return bytes((COMMAND, len(body))) + body


# Heads of small frames by size: of the last frame of a message, and of a frame with more to follow.
_LAST_HEADS = [bytes((0, size)) for size in range(256)]
_MORE_HEADS = [bytes((MORE, size)) for size in range(256)]


def message(frames: list[Any]) -> list[Any]:
    """The buffers of one message. Its frames are not copied: they must not change until they are sent."""
    buffers: list[Any] = []
    last = len(frames) - 1
    for i in range(last + 1):
        frame = frames[i]
        size = len(frame)
        if size < 256:
            buffers.append(_LAST_HEADS[size] if i == last else _MORE_HEADS[size])
        else:
            flags = LONG if i == last else MORE | LONG
            buffers.append(flags.to_bytes(1, "big") + size.to_bytes(8, "big"))
        buffers.append(frame)
    return buffers


class Receiver:
    """Splits the bytes that a peer sends into messages.

    `scratch` (SCRATCH_BYTES and the possible remainder of a read) is shared by all receivers of a loop: it is empty
    between reads. `peer` is the peer's identity once its READY has arrived, None before.
    """

    def __init__(self, scratch: bytearray) -> None:
        self.peer: bytes | None = None
        self.scratch = scratch
        self.view = memoryview(scratch)  # while the view exists, the buffer cannot move
        self.data = address_of_bytearray(scratch)
        self.greeted = False
        self.rest = b""
        self.frames: list[Any] = []
        self.large: bytearray | None = None
        self.large_more = False
        self.filled = 0

    def room(self) -> memoryview:
        """The buffer for the next read."""
        if self.large is not None:
            return memoryview(self.large)[self.filled :]
        if not self.rest:
            return self.view
        kept = len(self.rest)
        self.view[:kept] = self.rest
        return self.view[kept:]

    def received(self, count: int) -> list[list[Any]]:
        """The messages that `count` more bytes complete: lists of frames, bytes or memoryviews. ZmtpError."""
        messages: list[list[Any]] = []
        if self.large is not None:
            self.filled += count
            if self.filled == len(self.large):
                frame = memoryview(self.large)
                self.large = None
                self.add(frame, self.large_more, messages)
            return messages
        end = len(self.rest) + count
        if count < 0 or end > len(self.scratch):
            raise ValueError(f"{count} bytes are more than there was room for")
        at = 0
        if not self.greeted:
            if end < GREETING_BYTES:
                self.rest = read_bytes(self.data, 0, end)
                return messages
            _check_greeting(read_bytes(self.data, 0, GREETING_BYTES))
            self.greeted = True
            at = GREETING_BYTES
        at = self.split(at, end, messages)
        self.rest = read_bytes(self.data, at, end - at) if at < end else b""
        return messages

    def split(self, at: int, end: int, messages: list[list[Any]]) -> int:
        """Split the frames between two positions; return the position of the first incomplete one."""
        data = self.data
        while end - at >= 2:
            flags = data[at]
            body = at + (9 if flags & LONG else 2)
            if body > end:
                return at
            announced = load64(data, at + 1) if flags & LONG else data[at + 1]
            if announced > FRAME_BYTES_MAX:
                raise ZmtpError(f"a frame of {announced} bytes")
            size = announced
            if body + size > end:
                if size >= LARGE_BYTES and not flags & COMMAND:
                    self.begin_large(size, flags, body, end)
                    return end
                if size >= LARGE_BYTES:
                    raise ZmtpError(f"a command of {size} bytes")
                return at
            at = body + size
            if flags & COMMAND:
                self.command(read_bytes(data, body, size))
            else:
                self.add(read_bytes(data, body, size), flags & MORE, messages)
        return at

    def begin_large(self, size: int, flags: int, body: int, end: int) -> None:
        """Start reading a large frame, whose beginning has arrived, into its final buffer."""
        large = bytearray(size)
        self.filled = end - body
        copy(address_of_bytearray(large), 0, self.data, body, self.filled)
        self.large = large
        self.large_more = bool(flags & MORE)

    def add(self, frame: Any, more: int, messages: list[list[Any]]) -> None:
        """Append a frame to the current message; ZmtpError before the handshake."""
        if self.peer is None:
            raise ZmtpError("a message before the handshake")
        self.frames.append(frame)
        if not more:
            messages.append(self.frames)
            self.frames = []

    def command(self, body: bytes) -> None:
        """Handle a command: NULL has only READY, or ERROR in its place; commands of later versions need no answer."""
        name, rest = body[1 : 1 + body[0]] if body else b"", body[1 + body[0] :] if body else b""
        if name == b"ERROR":
            raise ZmtpError(f"the peer refuses: {rest[1:].decode(errors='replace')}")
        if name == b"READY" and self.peer is None:
            self.peer = _properties(rest).get(b"identity", b"")


def _check_greeting(greeting: bytes) -> None:
    if greeting[0] != 0xFF or greeting[9] != _SIGNATURE_END:
        raise ZmtpError("the peer does not speak ZMTP")
    if greeting[10] < _MAJOR:
        raise ZmtpError(f"the peer speaks version {greeting[10]} of ZMTP")
    mechanism = greeting[_MECHANISM].rstrip(b"\0")
    if mechanism != b"NULL":
        raise ZmtpError(f"the peer wants mechanism {mechanism.decode(errors='replace')}")


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _properties(data: bytes) -> dict[bytes, bytes]:
    """Metadata by name in lower case: property names are case-insensitive."""
    found = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        value = name_end + 4
        end = value + int.from_bytes(data[name_end:value], "big")
        if end > len(data):
            raise ZmtpError("metadata that is cut off")
        found[data[at + 1 : name_end].lower()] = data[value:end]
        at = end
    return found
