"""AMQP 0-9-1 frames, methods, field tables and properties, written for the tests only.

The broker's codec is under test, so none of it is used: bytes are built and parsed in the plainest way, from the
tables of the specification (sections 4.2 and 1.4 ff.) and of the extensions that brokers agree on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8

_METHOD_TABLE = """
connection.start         10 10  major:octet minor:octet server_properties:table mechanisms:longstr locales:longstr
connection.start-ok      10 11  client_properties:table mechanism:shortstr response:longstr locale:shortstr
connection.tune          10 30  channel_max:short frame_max:long heartbeat:short
connection.tune-ok       10 31  channel_max:short frame_max:long heartbeat:short
connection.open          10 40  vhost:shortstr reserved_1:shortstr reserved_2:bit
connection.open-ok       10 41  reserved_1:shortstr
connection.close         10 50  code:short text:shortstr class_id:short method_id:short
connection.close-ok      10 51
connection.blocked       10 60  reason:shortstr
connection.unblocked     10 61
connection.update-secret 10 70  new_secret:longstr reason:shortstr
connection.update-secret-ok 10 71
channel.open             20 10  reserved_1:shortstr
channel.open-ok          20 11  reserved_1:longstr
channel.flow             20 20  active:bit
channel.flow-ok          20 21  active:bit
channel.close            20 40  code:short text:shortstr class_id:short method_id:short
channel.close-ok         20 41
access.request           30 10  realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit
access.request-ok        30 11  t:short
exchange.declare         40 10  t:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
exchange.declare-ok      40 11
exchange.delete          40 20  t:short exchange:shortstr if_unused:bit nowait:bit
exchange.delete-ok       40 21
exchange.bind            40 30  t:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
exchange.bind-ok         40 31
exchange.unbind          40 40  t:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
exchange.unbind-ok       40 51
queue.declare            50 10  t:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
queue.declare-ok         50 11  queue:shortstr messages:long consumers:long
queue.bind               50 20  t:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
queue.bind-ok            50 21
queue.purge              50 30  t:short queue:shortstr nowait:bit
queue.purge-ok           50 31  messages:long
queue.delete             50 40  t:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
queue.delete-ok          50 41  messages:long
queue.unbind             50 50  t:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
queue.unbind-ok          50 51
basic.qos                60 10  prefetch_size:long prefetch_count:short global_:bit
basic.qos-ok             60 11
basic.consume            60 20  t:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
basic.consume-ok         60 21  consumer_tag:shortstr
basic.cancel             60 30  consumer_tag:shortstr nowait:bit
basic.cancel-ok          60 31  consumer_tag:shortstr
basic.publish            60 40  t:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
basic.return             60 50  code:short text:shortstr exchange:shortstr routing_key:shortstr
basic.deliver            60 60  consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
basic.get                60 70  t:short queue:shortstr no_ack:bit
basic.get-ok             60 71  delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr messages:long
basic.get-empty          60 72  reserved_1:shortstr
basic.ack                60 80  delivery_tag:longlong multiple:bit
basic.reject             60 90  delivery_tag:longlong requeue:bit
basic.recover-async      60 100 requeue:bit
basic.recover            60 110 requeue:bit
basic.recover-ok         60 111
basic.nack               60 120 delivery_tag:longlong multiple:bit requeue:bit
confirm.select           85 10  nowait:bit
confirm.select-ok        85 11
tx.select                90 10
tx.select-ok             90 11
tx.commit                90 20
tx.commit-ok             90 21
tx.rollback              90 30
tx.rollback-ok           90 31
"""  # noqa: E501 - a table reads best with one method a line


class Signature(NamedTuple):
    """A method's ids and arguments."""

    name: str
    class_id: int
    method_id: int
    arguments: tuple[tuple[str, str], ...]
    """(name, domain) in wire order; consecutive bits share bytes, lowest bit first."""


def _signature(line: str) -> Signature:
    name, class_id, method_id, *arguments = line.split()
    pairs = [argument.partition(":") for argument in arguments]
    return Signature(name, int(class_id), int(method_id), tuple((key, domain) for key, _, domain in pairs))


METHODS = {s.name: s for s in map(_signature, _METHOD_TABLE.strip().splitlines())}
METHODS_BY_ID = {(s.class_id, s.method_id): s for s in METHODS.values()}
_NAMES = {name: {key for key, _ in signature.arguments} for name, signature in METHODS.items()}
CARRIES_CONTENT = {"basic.deliver", "basic.return", "basic.get-ok"}

# Section 4.2.6.1: property flags from bit 15 down.
PROPERTIES = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "longlong"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)

_NUMBERS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
_packed = cache(struct.Struct)
_FRAME, _METHOD_IDS, _CONTENT_HEADER = struct.Struct(">BHI"), struct.Struct(">HH"), struct.Struct(">HHQH")
_TABLE_NUMBERS = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "f": ">f", "d": ">d",
    "T": ">Q",
}  # fmt: skip


@dataclass(frozen=True)
class Timestamp:
    """A field-table timestamp, seconds since 1970 (type T)."""

    seconds: int


@dataclass
class Event:
    """One method from the broker, with its content, if any. Arguments are readable as attributes."""

    name: str
    channel: int
    arguments: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["arguments"][name]
        except KeyError:
            raise AttributeError(name) from None


class Reader:
    """Reads values from the front of a byte string. struct.error or IndexError if it ends too early."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        """Read `count` bytes."""
        if self.at + count > len(self.data):
            raise IndexError(f"{count} octets wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> Any:
        """Read a number in a format of `struct`."""
        packed = _packed(form)
        value = packed.unpack_from(self.data, self.at)[0]
        self.at += packed.size
        return value

    def value(self, domain: str) -> Any:
        """Read a value of a domain."""
        if domain in _NUMBERS:
            return self.number(_NUMBERS[domain])
        if domain == "shortstr":
            return self.take(self.number(">B")).decode()
        if domain == "longstr":
            return self.take(self.number(">I"))
        if domain == "table":
            return self.table()
        raise ValueError(domain)

    def table(self) -> dict[str, Any]:
        """Read a field table."""
        inner = Reader(self.take(self.number(">I")))
        result = {}
        while inner.at < len(inner.data):
            key = inner.value("shortstr")
            result[key] = inner.table_value()
        return result

    def table_value(self) -> Any:
        """Read a typed value of a table."""
        kind = self.take(1).decode()
        if kind == "S":
            return self.take(self.number(">I")).decode()
        if kind == "x":
            return self.take(self.number(">I"))
        if kind == "t":
            return self.take(1) != b"\x00"
        if kind == "F":
            return self.table()
        if kind == "A":
            inner = Reader(self.take(self.number(">I")))
            items = []
            while inner.at < len(inner.data):
                items.append(inner.table_value())
            return items
        if kind == "V":
            return None
        if kind == "D":
            scale, unscaled = self.number(">B"), self.number(">i")
            return unscaled / 10**scale
        number = self.number(_TABLE_NUMBERS[kind])
        return Timestamp(number) if kind == "T" else number


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame (section 4.2.3)."""
    return b"%b%b%c" % (_FRAME.pack(kind, channel, len(payload)), payload, FRAME_END)


def shortstr(text: str | bytes) -> bytes:
    """Return a short string."""
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def longstr(text: str | bytes) -> bytes:
    """Return a long string."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">I", len(data)) + data


def table(values: Mapping[str, Any]) -> bytes:
    """Return a field table with its length."""
    return longstr(b"".join(shortstr(key) + table_value(value) for key, value in values.items()))


def table_value(value: Any) -> bytes:
    """Return a typed value: int becomes I (32 bits) or l (64 bits), str S, bytes x, float d, list A, None V."""
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t" + bytes([value])
    if isinstance(value, int):
        short = -(2**31) <= value < 2**31
        return b"I" + struct.pack(">i", value) if short else b"l" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + longstr(value)
    if isinstance(value, bytes):
        return b"x" + longstr(value)
    if isinstance(value, Timestamp):
        return b"T" + struct.pack(">Q", value.seconds)
    if isinstance(value, list):
        return b"A" + longstr(b"".join(map(table_value, value)))
    return b"F" + table(value)


def _plain_value(domain: str, value: Any) -> bytes:
    if domain in _NUMBERS:
        return struct.pack(_NUMBERS[domain], value or 0)
    if domain == "shortstr":
        return shortstr(value or "")
    if domain == "longstr":
        return longstr(value or "")
    return table(value or {})


def method_payload(name: str, **arguments: Any) -> bytes:
    """Return class, method and arguments; missing ones are zero, empty or false. TypeError for an unknown argument."""
    signature = METHODS[name]
    if not arguments.keys() <= _NAMES[name]:
        raise TypeError(f"{name} has no {arguments.keys() - _NAMES[name]}")
    out = bytearray(_METHOD_IDS.pack(signature.class_id, signature.method_id))
    octet, used = 0, 0
    for key, domain in signature.arguments:
        if domain == "bit":
            if arguments.get(key):
                octet |= 1 << used
            used += 1
            continue
        if used:
            out.append(octet)
            octet = used = 0
        out += _plain_value(domain, arguments.get(key))
    if used:
        out.append(octet)
    return bytes(out)


def method_frame(name: str, channel: int = 0, **arguments: Any) -> bytes:
    """Return the frame of a method."""
    return frame(METHOD, channel, method_payload(name, **arguments))


def header_frame(channel: int, body_size: int, properties: Mapping[str, Any], class_id: int = 60) -> bytes:
    """A content header (section 4.2.6.1)."""
    flags, values = 0, b""
    for at, (name, domain) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - at)
            values += _plain_value(domain, properties[name])
    return frame(HEADER, channel, _CONTENT_HEADER.pack(class_id, 0, body_size, flags) + values)


def publish_frames(
    channel: int,
    body: bytes,
    exchange: str = "",
    routing_key: str = "",
    mandatory: bool = False,
    frame_max: int = 131072,
    **properties: Any,
) -> bytes:
    """Return a basic.publish with its header and its body, cut so that no frame exceeds `frame_max`."""
    room = frame_max - FRAME_OVERHEAD
    parts = [
        method_frame("basic.publish", channel, exchange=exchange, routing_key=routing_key, mandatory=mandatory),
        header_frame(channel, len(body), properties),
        *(frame(BODY, channel, body[at : at + room]) for at in range(0, len(body), room)),
    ]
    return b"".join(parts)


def parse_method(channel: int, payload: bytes) -> Event:
    """Return the method in a payload, with its arguments."""
    reader = Reader(payload, _METHOD_IDS.size)
    signature = METHODS_BY_ID[_METHOD_IDS.unpack_from(payload)]
    arguments: dict[str, Any] = {}
    octet, used = 0, 8
    for key, domain in signature.arguments:
        if domain == "bit":
            if used == 8:
                octet, used = reader.number(">B"), 0
            arguments[key] = bool(octet >> used & 1)
            used += 1
        else:
            used = 8
            arguments[key] = reader.value(domain)
    event = Event(signature.name, channel, arguments)
    assert reader.at == len(payload), f"{signature.name}: {len(payload) - reader.at} octets too many"
    return event


def parse_header(payload: bytes) -> tuple[int, dict[str, Any]]:
    """Return the body size and properties in a content header."""
    reader = Reader(payload)
    class_id, weight, size, flags = struct.unpack(">HHQH", reader.take(14))
    assert (class_id, weight) == (60, 0)
    properties = {name: reader.value(domain) for at, (name, domain) in enumerate(PROPERTIES) if flags >> (15 - at) & 1}
    assert reader.at == len(payload)
    return size, properties
