"""Decoding and encoding of methods (AMQP 0-9-1, 4.2.4 and 4.2.5).

A method's payload is class id, method id (2 bytes each) and its fields. Short strings are `str` and must be UTF-8, as
in RabbitMQ; long strings are `bytes`; tables as in `tables_cy`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.spec import BY_NAME, FRAME_END, FRAME_METHOD, METHODS, MethodSpec
from penstock.amqp.tables_cy import decode_table, encode_table, table_types

TableReader = Callable[[bytes, int, int], tuple[dict[str, object], int] | tuple[dict[str, str], int]]

_IDS = Struct(">HH")
_FRAME = Struct(">BHI")
_LENGTH = Struct(">I")
_NUMBERS = {"octet": Struct(">B"), "short": Struct(">H"), "long": Struct(">I"), "longlong": Struct(">Q")}
_ZEROES = {
    "octet": bytes(1),
    "short": bytes(2),
    "long": bytes(4),
    "longlong": bytes(8),
    "shortstr": bytes(1),
    "longstr": bytes(4),
    "table": bytes(4),
}


def decode(payload: bytes | bytearray | memoryview) -> tuple[MethodSpec, dict[str, object]]:
    """Decode the payload of a method frame into its method and fields by name, without the fields that have no meaning.

    FrameSyntaxError: 501 if there is no such method, its fields are cut short or followed by more, or a short string is
    not UTF-8; 502 if a table is malformed.
    """
    data = bytes(payload)
    spec = _spec(data)
    return spec, _fields(spec, data, decode_table)


def argument_types(payload: bytes | bytearray | memoryview) -> dict[str, str]:
    """RabbitMQ's words for the wire types of a method's `arguments`: {"x-max-length": "signedint"}.

    For reply texts only: it decodes the method a second time. FrameSyntaxError as for `decode`.
    """
    data = bytes(payload)
    types = _fields(_spec(data), data, table_types).get("arguments", {})
    assert isinstance(types, dict)
    return types


def _spec(data: bytes) -> MethodSpec:
    if len(data) < _IDS.size:
        raise FrameSyntaxError(501, f"a method frame of {len(data)} bytes names no method")
    ids = _IDS.unpack_from(data)
    if ids not in METHODS:
        raise FrameSyntaxError(501, f"method {ids[0]}.{ids[1]} is unknown", *ids)
    return METHODS[ids]


def _fields(spec: MethodSpec, data: bytes, read_table: TableReader) -> dict[str, object]:
    try:
        fields, at = _read(spec, data, read_table)
    except error:
        text = f"method '{spec.amqp_name}' is cut short"
        raise FrameSyntaxError(501, text, spec.class_id, spec.method_id) from None
    except FrameSyntaxError as problem:
        raise FrameSyntaxError(problem.code, problem.text, spec.class_id, spec.method_id) from None
    if at != len(data):
        text = f"method '{spec.amqp_name}' is followed by {len(data) - at} bytes"
        raise FrameSyntaxError(501, text, spec.class_id, spec.method_id)
    return fields


def _read(spec: MethodSpec, data: bytes, read_table: TableReader) -> tuple[dict[str, object], int]:
    """The fields, and their end. struct.error if the bytes end too early."""
    fields: dict[str, object] = {}
    ignored = spec.ignored
    at = _IDS.size
    bits = 0
    value: object
    for name, domain in spec.fields:
        if domain == "bit":
            if bits % 8 == 0:
                (octet,) = _NUMBERS["octet"].unpack_from(data, at)
                at += 1
            value = bool(octet >> bits % 8 & 1)
            bits += 1
        else:
            bits = 0
            if domain == "shortstr":
                text, at = _string(data, at, _NUMBERS["octet"])
                value = short_string(text)
            elif domain == "longstr":
                value, at = _string(data, at, _LENGTH)
            elif domain == "table":
                value, at = read_table(data, at, len(data))
            else:
                number = _NUMBERS[domain]
                (value,) = number.unpack_from(data, at)
                at += number.size
        if name not in ignored:
            fields[name] = value
    return fields, at


def short_string(data: bytes) -> str:
    """A short string of a method, without its length. FrameSyntaxError (501) unless it is UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameSyntaxError(501, "Malformed UTF-8 in shortstr") from None


def _string(data: bytes, at: int, length: Struct) -> tuple[bytes, int]:
    (size,) = length.unpack_from(data, at)
    start = at + length.size
    if size > len(data) - start:
        raise error
    return data[start : start + size], start + size


def encode(name: str, /, **arguments: object) -> bytes:
    """The payload of a method frame; fields not given are zero, empty or false.

    KeyError for an unknown method, TypeError for an unknown field or a value of the wrong type, ValueError for one
    that does not fit its field.
    """
    spec = BY_NAME[name]
    out = bytearray(_IDS.pack(spec.class_id, spec.method_id))
    ignored = spec.ignored
    bits = 0
    for field, domain in spec.fields:
        value = None if field in ignored else arguments.pop(field, None)
        if domain == "bit":
            if bits % 8 == 0:
                out.append(0)
            if value:
                out[-1] |= 1 << bits % 8
            bits += 1
        else:
            bits = 0
            out += _ZEROES[domain] if value is None else _written(field, domain, value)
    if arguments:
        raise TypeError(f"{spec.amqp_name} has no {', '.join(arguments)}")
    return bytes(out)


def _written(field: str, domain: str, value: object) -> bytes:
    if domain == "shortstr" or domain == "longstr":
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if not isinstance(data, bytes):
            raise TypeError(f"{field} is a string, not {type(value).__name__}")
        length = _NUMBERS["octet"] if domain == "shortstr" else _LENGTH
        if domain == "shortstr" and len(data) > 255:
            raise ValueError(f"{field} has {len(data)} bytes, more than 255")
        return length.pack(len(data)) + data
    if domain == "table":
        if not isinstance(value, dict):
            raise TypeError(f"{field} is a table, not {type(value).__name__}")
        return encode_table(value)
    if not isinstance(value, int):
        raise TypeError(f"{field} is a number, not {type(value).__name__}")
    try:
        return _NUMBERS[domain].pack(value)
    except error:
        raise ValueError(f"{field} is a {domain}, which cannot be {value}") from None


def frame(channel: int, name: str, /, **arguments: object) -> bytes:
    """A whole method frame (4.2.3). Errors as for `encode`."""
    payload = encode(name, **arguments)
    return b"%b%b%c" % (_FRAME.pack(FRAME_METHOD, channel, len(payload)), payload, FRAME_END)
