"""Deliveries cut out of the bytes read from a socket, before pika makes objects of their frames, which would be most of
a message's cost.

    socket ──bytes──▶ Intake ──deliveries──▶ deque
                         └──────all other frames──▶ pika

Sans-I/O. AMQP 0-9-1, sections 2.3.5 (frames), 1.8.3.9 (basic.deliver) and 2.3.5.2 (content).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

METHOD, HEADER, BODY, HEARTBEAT, END = 1, 2, 3, 8, 0xCE
AROUND: Final = 8
"""Bytes of a frame around its payload: seven before, one after."""
DELIVER: Final = bytes((0, 60, 0, 60))
"""Class and method of basic.deliver."""
PROPERTIES_AT: Final = 12
"""Offset in the payload of a header frame: after class, weight and size of the body."""

_FRAME: Final = Struct(">BHI")
_TAG: Final = Struct(">Q?")
_BODY_SIZE: Final = Struct(">Q")


class Delivery(NamedTuple):
    """A delivered message. `tag` counts from 1 on its channel; `properties` are those of its header frame, from the
    flags on.
    """

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class Intake:
    """The parser of one connection, at most one channel of which consumes.

    `deliver` is called with each delivery, `others` with the bytes of every other frame, both in order of arrival.
    Bytes that are no frame also go to `others`, which rejects them.
    """

    def __init__(self, deliver: Callable[[Delivery], object], others: Callable[[bytes], object]) -> None:
        self._deliver = deliver
        self._others = others
        self._read: list[bytes] = []
        self._buffered = 0
        self._needed = AROUND
        """Bytes needed for a whole frame, as far as is known."""
        self._method: tuple[int, bool, str, str] | None = None
        """The method of the content being received."""
        self._properties = b""
        self._body: list[bytes] = []
        self._remaining = 0

    def feed(self, data: bytes) -> None:
        """Parse bytes read from the socket."""
        self._read.append(data)
        self._buffered += len(data)
        if self._buffered < self._needed:
            return
        data = b"".join(self._read)
        at = self._frames(data)
        self._read, self._buffered = [data[at:]], len(data) - at

    def _frames(self, data: bytes) -> int:
        """Process all whole frames; return where the rest begins."""
        at, size = 0, len(data)
        self._needed = AROUND
        while size - at >= AROUND:
            kind, _, length = _FRAME.unpack_from(data, at)
            start, end = at + 7, at + 7 + length
            if kind not in (METHOD, HEADER, BODY, HEARTBEAT):
                self._others(data[at:])
                return size
            if end >= size:
                self._needed = length + AROUND
                break
            if data[end] != END or not self._content(kind, data, start, end):
                self._others(data[at : end + 1])
            at = end + 1
        return at

    def _content(self, kind: int, data: bytes, start: int, end: int) -> bool:
        """Process the payload of a frame if it is part of a delivery; return whether it is."""
        if kind == METHOD:
            if not data.startswith(DELIVER, start):
                return False
            tag_at = start + 5 + data[start + 4]
            tag, redelivered = _TAG.unpack_from(data, tag_at)
            self._method = (tag, redelivered, *_route(data[tag_at + _TAG.size : end]))
            return True
        if self._method is None or kind == HEARTBEAT:
            return False
        if kind == HEADER:
            (self._remaining,) = _BODY_SIZE.unpack_from(data, start + 4)
            self._properties = data[start + PROPERTIES_AT : end]
        else:
            self._body.append(data[start:end])
            self._remaining -= end - start
        if self._remaining <= 0:
            self._deliver(Delivery(*self._method, self._properties, b"".join(self._body)))
            self._method = None
            self._body.clear()
        return True


@lru_cache(maxsize=1024)
def _route(data: bytes) -> tuple[str, str]:
    """Decode exchange and routing key, two short strings; invalid UTF-8 becomes U+FFFD."""
    end = 1 + data[0]
    return data[1:end].decode("utf-8", "replace"), data[end + 1 :].decode("utf-8", "replace")
