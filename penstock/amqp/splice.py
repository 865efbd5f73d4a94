"""A content header in pieces, so that one part can be replaced while the others keep their exact bytes.

Decoding and encoding would lose the widths of numbers, which some clients see as distinct types. A property is kept as
the bytes of its value, a field of a table as the bytes of its type and value, names without their length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct, error, pack

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import PROPERTIES

_FLAGS = Struct(">H")
_LENGTH = Struct(">I")

# Bytes of a field's value by its type; None: a length of 4 bytes and as many more (4.2.5.5, RabbitMQ's errata).
_SIZES: dict[int, int | None] = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLdT", 8),
    **dict.fromkeys(b"SxAF"),
    ord("D"): 5,
    ord("V"): 0,
}
_DOMAIN_SIZES = {"octet": 1, "timestamp": 8}


def split_properties(data: bytes) -> dict[str, bytes]:
    """The properties present, from the flags on. FrameSyntaxError 501 if they are cut short."""
    properties = {}
    try:
        (flags,) = _FLAGS.unpack_from(data)
        at = _FLAGS.size
        for bit, (name, domain) in enumerate(PROPERTIES):
            if flags & 0x8000 >> bit:
                end = at + _property_size(data, at, domain)
                if end > len(data):
                    raise IndexError
                properties[name] = data[at:end]
                at = end
    except (error, IndexError):
        raise FrameSyntaxError(501, "the properties are cut short") from None
    return properties


def _property_size(data: bytes, at: int, domain: str) -> int:
    if domain == "shortstr":
        return 1 + data[at]
    if domain == "table":
        return _LENGTH.size + int(_LENGTH.unpack_from(data, at)[0])
    return _DOMAIN_SIZES[domain]


def join_properties(properties: Mapping[str, bytes]) -> bytes:
    """Join flags and properties; the inverse of `split_properties`."""
    flags = 0
    parts = []
    for bit, (name, _) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 0x8000 >> bit
            parts.append(properties[name])
    return b"".join([_FLAGS.pack(flags), *parts])


def split_table(data: bytes) -> dict[bytes, bytes]:
    """The fields of a table, from its length on. FrameSyntaxError 502 if they do not fill it."""
    fields = {}
    try:
        end = _LENGTH.size + int(_LENGTH.unpack_from(data)[0])
        at = _LENGTH.size
        while at < end:
            value = at + 1 + data[at]
            name = data[at + 1 : value]
            at = value + _value_size(data, value)
            fields[name] = data[value:at]
    except (error, IndexError, KeyError):
        raise FrameSyntaxError(502, "a table is malformed") from None
    if at != end or end > len(data):
        raise FrameSyntaxError(502, "a table is malformed")
    return fields


def _value_size(data: bytes, at: int) -> int:
    """The size of a type and its value, in bytes."""
    size = _SIZES[data[at]]
    if size is None:
        size = _LENGTH.size + int(_LENGTH.unpack_from(data, at + 1)[0])
    return 1 + size


def join_table(fields: Mapping[bytes, bytes]) -> bytes:
    """A table with its length."""
    body = b"".join(bytes([len(name)]) + name + value for name, value in fields.items())
    return _LENGTH.pack(len(body)) + body


def items(field: bytes) -> Iterator[bytes]:
    """The items of a field that is an array; none if it is something else."""
    if field[:1] == b"A":
        at = 1 + _LENGTH.size
        while at < len(field):
            size = _value_size(field, at)
            yield field[at : at + size]
            at += size


def text_of(field: bytes | None) -> bytes | None:
    """The bytes of a field that is a long string, else None."""
    return field[5:] if field is not None and field[:1] == b"S" else None


def text(data: bytes) -> bytes:
    """A long string as a field."""
    return b"S" + _LENGTH.pack(len(data)) + data


def array(fields: list[bytes]) -> bytes:
    """An array as a field."""
    body = b"".join(fields)
    return b"A" + _LENGTH.pack(len(body)) + body


def table(fields: Mapping[bytes, bytes]) -> bytes:
    """A table as a field."""
    return b"F" + join_table(fields)


def number(value: int) -> bytes:
    """An integer of 64 bits as a field."""
    return b"l" + pack(">q", value)


def timestamp(seconds: int) -> bytes:
    """A time as a field."""
    return b"T" + pack(">Q", seconds)


def shortstr(data: bytes) -> bytes:
    """A short string, at most 255 bytes."""
    return bytes([len(data)]) + data
