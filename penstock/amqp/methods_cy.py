# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Decoding and encoding of methods (AMQP 0-9-1, 4.2.4 and 4.2.5).

A method's payload is class id, method id (2 bytes each) and its fields. Short strings are `str` and must be UTF-8, as
in RabbitMQ; long strings are `bytes`; tables as in `tables_cy`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error

import cython

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.spec import BY_NAME, FRAME_END, FRAME_METHOD, METHODS, MethodSpec
from penstock.amqp.tables_cy import decode_table, encode_table, table_types

if not cython.compiled:
    from penstock.batch.pointers import address_of_bytes, load16, load32, load64, read_bytes

    IDS_SIZE = 4

TableReader = Callable[[bytes, int, int], tuple[dict[str, object], int] | tuple[dict[str, str], int]]

IDS = Struct(">HH")
FRAME = Struct(">BHI")
NUMBERS = {1: Struct(">B"), 2: Struct(">H"), 4: Struct(">I"), 8: Struct(">Q")}
SIZES = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "shortstr": 1, "longstr": 4, "table": 4}
"""Sizes of numbers, and of the lengths of strings and tables, in bytes."""
ZEROES = {domain: bytes(size) for domain, size in SIZES.items()}


def decode(payload: bytes | bytearray | memoryview) -> tuple[MethodSpec, dict[str, object]]:
    """Decode the payload of a method frame into its method and fields by name, without the fields that have no meaning.

    FrameSyntaxError: 501 if there is no such method, its fields are cut short or followed by more, or a short string is
    not UTF-8; 502 if a table is malformed.
    """
    data = bytes(payload)
    spec = spec_of(data)
    return spec, fields_of(spec, data, decode_table)


def argument_types(payload: bytes | bytearray | memoryview) -> dict[str, str]:
    """RabbitMQ's words for the wire types of a method's `arguments`: {"x-max-length": "signedint"}.

    For reply texts only: it decodes the method a second time. FrameSyntaxError as for `decode`.
    """
    data = bytes(payload)
    types = fields_of(spec_of(data), data, table_types).get("arguments", {})
    assert isinstance(types, dict)
    return types


def spec_of(data: bytes) -> MethodSpec:
    """Return the method that a payload names."""
    if len(data) < IDS_SIZE:
        raise FrameSyntaxError(501, f"a method frame of {len(data)} bytes names no method")
    ids = IDS.unpack_from(data)
    if ids not in METHODS:
        raise FrameSyntaxError(501, f"method {ids[0]}.{ids[1]} is unknown", *ids)
    return METHODS[ids]


def fields_of(spec: MethodSpec, data: bytes, read_table: TableReader) -> dict[str, object]:
    """Return the fields of a payload by name."""
    reader = Fields(data)
    try:
        fields = reader.read(spec, read_table)
    except error:
        text = f"method '{spec.amqp_name}' is cut short"
        raise FrameSyntaxError(501, text, spec.class_id, spec.method_id) from None
    except FrameSyntaxError as problem:
        raise FrameSyntaxError(problem.code, problem.text, spec.class_id, spec.method_id) from None
    if reader.at != reader.end:
        text = f"method '{spec.amqp_name}' is followed by {reader.end - reader.at} bytes"
        raise FrameSyntaxError(501, text, spec.class_id, spec.method_id)
    return fields


class Fields:
    """A position in a payload, advanced by each read. struct.error if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.p = address_of_bytes(data)
        self.at = IDS_SIZE
        self.end = len(data)

    def read(self, spec: MethodSpec, read_table: TableReader) -> dict[str, object]:
        """Read all fields."""
        fields: dict[str, object] = {}
        ignored = spec.ignored
        bits = flags = 0
        for name, domain in spec.fields:
            if domain == "bit":
                if bits == 0:
                    flags = self.number(1)
                value: object = flags >> bits & 1 == 1
                bits = (bits + 1) % 8
            else:
                bits = 0
                value = self.value(domain, read_table)
            if name not in ignored:
                fields[name] = value
        return fields

    def value(self, domain: str, read_table: TableReader) -> object:
        """Read a field other than a bit."""
        if domain == "shortstr":
            return short_string(self.string(self.number(1)))
        if domain == "longstr":
            return self.string(self.number(4))
        if domain == "table":
            value, self.at = read_table(self.data, self.at, self.end)
            return value
        return self.number(SIZES[domain])

    def number(self, size: int) -> int:
        """Read a number of so many bytes."""
        at = self.at
        if size > self.end - at:
            raise error
        self.at = at + size
        if size == 1:
            octet: int = self.p[at]
            return octet
        if size == 2:
            return load16(self.p, at)
        return load32(self.p, at) if size == 4 else load64(self.p, at)

    def string(self, size: int) -> bytes:
        """Read a string of so many bytes."""
        at = self.at
        if size > self.end - at:
            raise error
        self.at = at + size
        return read_bytes(self.p, at, size)


def short_string(data: bytes) -> str:
    """A short string of a method, without its length. FrameSyntaxError (501) unless it is UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameSyntaxError(501, "Malformed UTF-8 in shortstr") from None


def encode(name: str, /, **arguments: object) -> bytes:
    """The payload of a method frame; fields not given are zero, empty or false.

    KeyError for an unknown method, TypeError for an unknown field or a value of the wrong type, ValueError for one
    that does not fit its field.
    """
    return encoded(BY_NAME[name], arguments)


def frame(channel: int, name: str, /, **arguments: object) -> bytes:
    """A whole method frame (4.2.3). Errors as for `encode`."""
    payload = encoded(BY_NAME[name], arguments)
    return b"%b%b%c" % (FRAME.pack(FRAME_METHOD, channel, len(payload)), payload, FRAME_END)


def encoded(spec: MethodSpec, arguments: dict[str, object]) -> bytes:
    """Encode a method as `encode` does."""
    out = bytearray(IDS.pack(spec.class_id, spec.method_id))
    ignored = spec.ignored
    bits = flags = 0
    for field, domain in spec.fields:
        value = None if field in ignored else arguments.pop(field, None)
        if domain == "bit":
            flags = flags | 1 << bits if value else flags
            bits += 1
            if bits == 8:
                out.append(flags)
                bits = flags = 0
            continue
        if bits:
            out.append(flags)
            bits = flags = 0
        out += ZEROES[domain] if value is None else written(field, domain, value)
    if bits:
        out.append(flags)
    if arguments:
        raise TypeError(f"{spec.amqp_name} has no {', '.join(arguments)}")
    return bytes(out)


def written(field: str, domain: str, value: object) -> bytes:
    """Return the bytes of a field other than a bit."""
    if domain == "shortstr" or domain == "longstr":
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if not isinstance(data, bytes):
            raise TypeError(f"{field} is a string, not {type(value).__name__}")
        if domain == "shortstr" and len(data) > 255:
            raise ValueError(f"{field} has {len(data)} bytes, more than 255")
        length: bytes = NUMBERS[SIZES[domain]].pack(len(data))
        return length + data
    if domain == "table":
        if not isinstance(value, dict):
            raise TypeError(f"{field} is a table, not {type(value).__name__}")
        return encode_table(value)
    if not isinstance(value, int):
        raise TypeError(f"{field} is a number, not {type(value).__name__}")
    try:
        return NUMBERS[SIZES[domain]].pack(value)
    except error:
        raise ValueError(f"{field} is a {domain}, which cannot be {value}") from None
