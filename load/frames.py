"""Bytes of publishes, deliveries and acks, built by hand: a benchmark does not share the broker's codec."""

from __future__ import annotations

import struct
from typing import Final

from load.wire import FRAME_END, FRAME_OVERHEAD, Method, method_frame, short_string

QUEUE_DECLARE: Final[Method] = (50, 10)
QUEUE_DECLARE_OK: Final[Method] = (50, 11)
QUEUE_BIND: Final[Method] = (50, 20)
BASIC_QOS: Final[Method] = (60, 10)
BASIC_QOS_OK: Final[Method] = (60, 11)
BASIC_CONSUME: Final[Method] = (60, 20)
BASIC_CONSUME_OK: Final[Method] = (60, 21)
BASIC_PUBLISH: Final[Method] = (60, 40)
BASIC_ACK: Final[Method] = (60, 80)
CONFIRM_SELECT: Final[Method] = (85, 10)
CONFIRM_SELECT_OK: Final[Method] = (85, 11)

HEADER_FRAME, BODY_FRAME = 2, 3
BASIC_CLASS = 60
HAS_HEADERS, HAS_DELIVERY_MODE, HAS_PRIORITY = 1 << 13, 1 << 12, 1 << 11
PERSISTENT = 2
CONSUMER_TAG = "c"


def publish(
    key: str, body: bytes, count: int = 1, exchange: str = "", persistent: bool = False, priority: int = 0,
    headers: bytes = b"", channel: int = 1,
) -> bytes:  # fmt: skip
    """Return `count` publishes of one message, with an encoded table of headers. The body is at most one frame."""
    arguments = struct.pack("!H", 0) + short_string(exchange) + short_string(key) + b"\0"
    method = method_frame(channel, BASIC_PUBLISH, arguments)
    flags, properties = (HAS_DELIVERY_MODE, bytes([PERSISTENT])) if persistent else (0, b"")
    if priority:
        flags, properties = flags | HAS_PRIORITY, properties + bytes([priority])
    if headers:
        flags, properties = flags | HAS_HEADERS, headers + properties
    header = struct.pack("!HHQH", BASIC_CLASS, 0, len(body), flags) + properties
    content = _frame(HEADER_FRAME, channel, header) + (_frame(BODY_FRAME, channel, body) if body else b"")
    return (method + content) * count


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack("!BHI", kind, channel, len(payload)) + payload + FRAME_END


def delivery_bytes(size: int, exchange: str, key: str, persistent: bool) -> int:
    """Return the size of the message's delivery in bytes: method, header and one body frame."""
    method = 4 + 1 + len(CONSUMER_TAG) + 8 + 1 + 1 + len(exchange) + 1 + len(key)
    header = 14 + (1 if persistent else 0)
    return 3 * FRAME_OVERHEAD + method + header + size


def consume(queue: str, acks: bool) -> bytes:
    """Return the arguments of basic.consume."""
    flags = b"\0" if acks else b"\2"
    return struct.pack("!H", 0) + short_string(queue) + short_string(CONSUMER_TAG) + flags + struct.pack("!I", 0)


def qos(prefetch: int) -> bytes:
    """Return the arguments of basic.qos."""
    return struct.pack("!IHB", 0, prefetch, 0)


def ack_up_to(tag: int) -> bytes:
    """Return a basic.ack of everything up to a delivery tag."""
    return method_frame(1, BASIC_ACK, struct.pack("!QB", tag, 1))
