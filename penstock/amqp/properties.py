"""The properties of a content header (AMQP 0-9-1, 4.2.6.1), for callers that must look into a message.

The bytes begin with the flags, 16 bits, of which bit 15 announces the first property and so on down; the announced
properties follow in that order. Short strings are `str` as in `methods`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct, error

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.tables_cy import decode_table, encode_table, table_spans, table_types
from penstock.amqp.values import Timestamp

# In the payload of a content header, after class, weight and body size.
PROPERTIES_AT = 12

PROPERTIES: tuple[tuple[str, str], ...] = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "timestamp"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)
"""(name, domain) from bit 15 down."""

_FLAGS = Struct(">H")
_SIZE = Struct(">I")
_TIMESTAMP = Struct(">Q")
# Bit 0 would announce more flags, bit 1 a property that class basic does not have.
_UNKNOWN_FLAGS = 3


def decode_properties(payload: bytes | bytearray | memoryview) -> dict[str, object]:
    """The properties present, by name: str, int, Timestamp, and a dict for `headers`.

    FrameSyntaxError: 501 if they do not fill their bytes exactly, 502 if `headers` is malformed.
    """
    data = bytes(payload)
    properties, at = _read(data, "cluster_id")
    if at != len(data):
        raise FrameSyntaxError(501, f"the properties are followed by {len(data) - at} bytes")
    return properties


def decode_some(payload: bytes | bytearray | memoryview, wanted: Collection[str]) -> dict[str, object]:
    """Decode only some properties, by name; those behind the last of them are not checked. Errors as for
    `decode_properties`.
    """
    data = bytes(payload)
    try:
        return _read_some(data, wanted)
    except (error, IndexError):
        raise _cut_short() from None


def header_types(payload: bytes) -> dict[str, str]:
    """RabbitMQ's words for the wire types of the headers. Errors as for `decode_properties`."""
    start, end = _span(payload, "headers")
    return table_types(payload, start, end)[0] if start < end else {}


def without_header(payload: bytes, name: str) -> bytes:
    """The properties without the headers of that name; every other byte stays as it was received."""
    start, end = _span(payload, "headers")
    if start == end:
        return payload
    kept = b"".join(payload[low:high] for field, low, high in table_spans(payload, start, end) if field != name)
    return b"%b%b%b%b" % (payload[:start], len(kept).to_bytes(4, "big"), kept, payload[end:])


def with_reply_to(payload: bytes, reply_to: str) -> bytes:
    """The properties with their reply-to replaced; every other byte stays as it was received."""
    start, end = _span(payload, "reply_to")
    data = reply_to.encode("utf-8", "surrogateescape")
    return b"%b%c%b%b" % (payload[:start], len(data), data, payload[end:])


def _span(payload: bytes, wanted: str) -> tuple[int, int]:
    """The start and end of a property: the same position twice if it is absent."""
    (flags,) = _FLAGS.unpack_from(payload)
    at = _FLAGS.size
    bit = 1 << 15
    for name, domain in PROPERTIES:
        end = _value(payload, at, domain)[1] if flags & bit else at
        if name == wanted:
            break
        at, bit = end, bit >> 1
    return at, end


def _read(data: bytes, last: str) -> tuple[dict[str, object], int]:
    """The properties up to the one named, and their end."""
    try:
        return _read_announced(data, last)
    except (error, IndexError):
        raise _cut_short() from None


def _cut_short() -> FrameSyntaxError:
    return FrameSyntaxError(501, "the properties are cut short")


def _flags(data: bytes) -> int:
    (flags,) = _FLAGS.unpack_from(data)
    if flags & _UNKNOWN_FLAGS:
        raise FrameSyntaxError(501, f"the property flags {flags:#06x} announce what class basic does not have")
    return int(flags)


def _read_some(data: bytes, wanted: Collection[str]) -> dict[str, object]:
    flags = _flags(data)
    properties: dict[str, object] = {}
    at, bit, left = _FLAGS.size, 1 << 15, len(wanted)
    for name, domain in PROPERTIES:
        if not left:
            break
        if name in wanted:
            left -= 1
            if flags & bit:
                properties[name], at = _value(data, at, domain)
        elif flags & bit:
            at = _end(data, at, domain)
        bit >>= 1
    return properties


def _read_announced(data: bytes, last: str) -> tuple[dict[str, object], int]:
    flags = _flags(data)
    properties: dict[str, object] = {}
    at = _FLAGS.size
    bit = 1 << 15
    for name, domain in PROPERTIES:
        if flags & bit:
            properties[name], at = _value(data, at, domain)
        if name == last:
            break
        bit >>= 1
    return properties, at


def _value(data: bytes, at: int, domain: str) -> tuple[object, int]:
    if domain == "shortstr":
        end = at + 1 + data[at]
        if end > len(data):
            raise IndexError
        return data[at + 1 : end].decode("utf-8", "surrogateescape"), end
    if domain == "octet":
        return data[at], at + 1
    if domain == "table":
        return decode_table(data, at, len(data))
    return Timestamp(_TIMESTAMP.unpack_from(data, at)[0]), at + _TIMESTAMP.size


def _end(data: bytes, at: int, domain: str) -> int:
    """The end of a value that is not decoded."""
    if domain == "shortstr":
        end = at + 1 + data[at]
    elif domain == "table":
        end = at + _SIZE.size + int(_SIZE.unpack_from(data, at)[0])
    else:
        end = at + (1 if domain == "octet" else _TIMESTAMP.size)
    if end > len(data):
        raise IndexError
    return end


def encode_properties(properties: Mapping[str, object]) -> bytes:
    """Encode flags and properties. TypeError for an unknown property or a wrong type, ValueError for a value that does
    not fit.
    """
    unknown = properties.keys() - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"class basic has no property {', '.join(sorted(unknown))}")
    flags = 0
    parts = []
    for at, (name, domain) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - at)
            parts.append(_written(name, domain, properties[name]))
    return b"".join([_FLAGS.pack(flags), *parts])


def _written(name: str, domain: str, value: object) -> bytes:
    if domain == "shortstr" and isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        if len(data) > 255:
            raise ValueError(f"{name} has {len(data)} bytes, more than 255")
        return bytes([len(data)]) + data
    if domain == "table" and isinstance(value, dict):
        return encode_table(value)
    if domain in ("octet", "timestamp") and isinstance(value, int):
        size = 1 if domain == "octet" else _TIMESTAMP.size
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"{name} cannot be {value}")
        return value.to_bytes(size, "big")
    raise TypeError(f"{name} cannot be {type(value).__name__}")
