"""ZMTP 3.0, the protocol between ZeroMQ sockets, without I/O: greeting, NULL handshake, messages (RFC 23).

One side of one connection, for DEALER and ROUTER sockets in the loop of a process. What libzmq does in threads of its
own costs four wake-ups a round trip; a turn that the loop writes and reads itself costs none of them.
"""

from __future__ import annotations

from typing import Any

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
# The parts of a greeting that matter: signature, major version, mechanism.
_SIGNATURE_END = 0x7F
_MAJOR = 3
_MECHANISM = slice(12, 32)

_MORE = 1
_LONG = 2
_COMMAND = 4

SCRATCH_OCTETS = 512 * 1024
"""What one read brings at most."""
# A frame from this size on that is not all here is read into memory of its own.
LARGE = 32 * 1024
HEAD_MAX = 9
"""Octets of the head of a frame at most."""
FRAME_MAX = 1 << 31
"""Octets of the largest frame; a peer that announces more is refused."""


class ZmtpError(Exception):
    """The peer does not speak ZMTP 3 with the NULL mechanism, or says it does not want us."""


def ready(socket_type: str, identity: bytes = b"") -> bytes:
    """The command that ends this side's handshake. A DEALER's identity is what a ROUTER knows it by."""
    body = b"\x05READY" + _property(b"Socket-Type", socket_type.encode()) + _property(b"Identity", identity)
    return bytes((_COMMAND, len(body))) + body


def message(frames: list[Any]) -> list[Any]:
    """The buffers of one message: those of its frames are not copied, and must not change until they are sent."""
    buffers: list[Any] = []
    last = len(frames) - 1
    for i, frame in enumerate(frames):
        size = len(frame)
        flags = _MORE if i < last else 0
        if size < 256:
            buffers.append(bytes((flags, size)))
        else:
            buffers.append((flags | _LONG).to_bytes(1, "big") + size.to_bytes(8, "big"))
        buffers.append(frame)
    return buffers


class Receiver:
    """The octets that a peer sends, as messages.

    `scratch` (SCRATCH_OCTETS and what may be left of a read) is shared by all receivers of a loop: nothing is in it
    from one read to the next. `peer` is the peer's identity once it has said READY, None before.
    """

    def __init__(self, scratch: bytearray) -> None:
        self.peer: bytes | None = None
        self._scratch = memoryview(scratch)
        self._greeted = False
        self._rest = b""
        self._frames: list[Any] = []
        self._large: bytearray | None = None
        self._large_more = False
        self._filled = 0

    def room(self) -> memoryview:
        """Where the next octets are to be read."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        kept = len(self._rest)
        self._scratch[:kept] = self._rest
        return self._scratch[kept:]

    def received(self, count: int) -> list[list[Any]]:
        """The messages that are whole with `count` octets more: lists of frames, bytes or memoryviews. ZmtpError."""
        messages: list[list[Any]] = []
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                frame, self._large = memoryview(self._large), None
                self._add(frame, self._large_more, messages)
            return messages
        end = len(self._rest) + count
        at = 0
        if not self._greeted:
            if end < len(GREETING):
                self._rest = bytes(self._scratch[:end])
                return messages
            _check_greeting(bytes(self._scratch[: len(GREETING)]))
            self._greeted = True
            at = len(GREETING)
        at = self._split(at, end, messages)
        self._rest = bytes(self._scratch[at:end]) if at < end else b""
        return messages

    def _split(self, at: int, end: int, messages: list[list[Any]]) -> int:
        """Take the frames between two places; the place of the first one that is not whole."""
        octets = self._scratch
        while end - at >= 2:
            flags = octets[at]
            body = at + (9 if flags & _LONG else 2)
            if body > end:
                return at
            size = int.from_bytes(octets[at + 1 : body], "big")
            if size > FRAME_MAX:
                raise ZmtpError(f"a frame of {size} octets")
            if body + size > end:
                if size >= LARGE and not flags & _COMMAND:
                    self._large, self._large_more = bytearray(size), bool(flags & _MORE)
                    self._filled = end - body
                    self._large[: self._filled] = octets[body:end]
                    return end
                if size >= LARGE:
                    raise ZmtpError(f"a command of {size} octets")
                return at
            frame = bytes(octets[body : body + size])
            at = body + size
            if flags & _COMMAND:
                self._command(frame)
            else:
                self._add(frame, bool(flags & _MORE), messages)
        return at

    def _add(self, frame: Any, more: bool, messages: list[list[Any]]) -> None:
        if self.peer is None:
            raise ZmtpError("a message before the handshake")
        self._frames.append(frame)
        if not more:
            messages.append(self._frames)
            self._frames = []

    def _command(self, body: bytes) -> None:
        """READY is all that NULL has, ERROR comes instead of it; what later versions add needs no answer."""
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


def _properties(octets: bytes) -> dict[bytes, bytes]:
    """Metadata by their names in lower case: names of properties have no case."""
    found = {}
    at = 0
    while at < len(octets):
        name_end = at + 1 + octets[at]
        value = name_end + 4
        end = value + int.from_bytes(octets[name_end:value], "big")
        if end > len(octets):
            raise ZmtpError("metadata that is cut off")
        found[octets[at + 1 : name_end].lower()] = octets[value:end]
        at = end
    return found
