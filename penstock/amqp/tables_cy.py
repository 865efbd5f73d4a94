# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Field tables (AMQP 0-9-1, 4.2.5.5, with the type codes that RabbitMQ's errata settle).

    code     wire                              Python
    S        32-bit length, bytes              str, or bytes where it is not UTF-8
    x        32-bit length, bytes              ByteArray
    t        octet, 0 is false                 bool
    b B      8 bits, signed and unsigned       int
    s u      16 bits                           int
    I i      32 bits                           int
    l L      64 bits, both signed              int
    f d      32 and 64 bits                    Float32, float
    D        scale octet, 32 bits unsigned     Decimal
    T        64 bits unsigned, seconds         Timestamp
    F        32-bit length, names and values   dict
    A        32-bit length, values             list
    V        nothing                           None

Names are short strings; bytes that are not UTF-8 become surrogates, and are written back unchanged. Of fields
with the same name the last one counts. Integers are written as I, or as l if too large; all else keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from struct import Struct

import cython

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.values import ByteArray, Float32, Timestamp, type_name

if not cython.compiled:
    from penstock.batch.pointers import (
        address_of_bytearray,
        address_of_bytes,
        address_readonly,
        copy,
        load16,
        load32,
        load64,
        read_bytes,
        resize,
        store32,
    )

    # Levels below the outermost table. RabbitMQ has no such limit; no client needs more, and readers recurse.
    DEPTH_MAX = 64
    LONGSTR, BYTES, BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32 = b"SxtbBsuIi"
    INT64, INT64_TOO, FLOAT, DOUBLE, DECIMAL, TIMESTAMP, TABLE, ARRAY, VOID = b"lLfdDTFAV"

__all__ = [
    "ByteArray",
    "Float32",
    "Timestamp",
    "decode_table",
    "encode_table",
    "table_spans",
    "table_types",
    "type_name",
]

FLOAT32 = Struct(">f")
FLOAT64 = Struct(">d")

# RabbitMQ's words for the types, by code.
WORDS = {
    ord(code): word
    for code, word in {
        "S": "longstr",
        "x": "binary",
        "t": "bool",
        "b": "byte",
        "B": "unsignedbyte",
        "s": "short",
        "u": "unsignedshort",
        "I": "signedint",
        "i": "unsignedint",
        "l": "long",
        "L": "long",
        "f": "float",
        "d": "double",
        "D": "decimal",
        "T": "timestamp",
        "F": "table",
        "A": "array",
        "V": "void",
    }.items()
}


def decode_table(buffer: bytes | bytearray | memoryview, offset: int, end: int) -> tuple[dict[str, object], int]:
    """Decode the table whose 32-bit length is at `offset`; return it and its end. Nothing is read from `end` on.

    FrameSyntaxError 502 for a malformed table; ValueError if offset and end are not within the buffer.
    """
    reader = TableReader(buffer, offset, end)
    table = reader.table(end, 0)
    return table, reader.at


def table_types(buffer: bytes | bytearray | memoryview, offset: int, end: int) -> tuple[dict[str, str], int]:
    """As `decode_table`, but with RabbitMQ's words for the types of the outermost fields instead of their values."""
    reader = TableReader(buffer, offset, end)
    end = reader.inside(end, 0)
    types = {}
    while reader.at < end:
        name = reader.name(end)
        start = reader.at
        reader.value(end, 0)
        types[name] = WORDS[reader.p[start]]
    return types, reader.at


def table_spans(buffer: bytes | bytearray | memoryview, offset: int, end: int) -> list[tuple[str, int, int]]:
    """The outermost fields of the table at `offset`: name, start and end of each field including its name."""
    reader = TableReader(buffer, offset, end)
    end = reader.inside(end, 0)
    spans = []
    while reader.at < end:
        start = reader.at
        name = reader.name(end)
        reader.value(end, 0)
        spans.append((name, start, reader.at))
    return spans


def encode_table(table: Mapping[str, object]) -> bytes:
    """Encode a table with its 32-bit length. TypeError for a value of an unsupported type, ValueError for one too
    large.
    """
    out = bytearray()
    write_table(out, table, 0)
    return bytes(out)


class TableReader:
    """A position in a buffer, advanced by each read. `end` is the end of the innermost table or array around the
    position.
    """

    def __init__(self, buffer: bytes | bytearray | memoryview, offset: int, end: int) -> None:
        if not 0 <= offset <= end <= len(buffer):
            raise ValueError(f"a table from {offset} to {end} in a buffer of {len(buffer)} bytes")
        self.buffer = buffer
        self.at = offset
        if type(buffer) is bytes:
            self.p = address_of_bytes(buffer)
        else:
            self.view = buffer
            self.p = address_readonly(self.view)

    def skip(self, end: int, size: int) -> int:
        """Advance by `size` bytes; return the position before them."""
        at = self.at
        if end - at < size:
            raise FrameSyntaxError(502, f"a field of {size} bytes where a table has {end - at} left")
        self.at = at + size
        return at

    def inside(self, end: int, depth: int) -> int:
        """Read the length of a table or an array; return its end."""
        if depth > DEPTH_MAX:
            raise FrameSyntaxError(502, f"field tables nested more than {DEPTH_MAX} deep")
        size = load32(self.p, self.skip(end, 4))
        if end - self.at < size:
            raise FrameSyntaxError(502, f"a field table of {size} bytes where {end - self.at} are left")
        return self.at + size

    def table(self, end: int, depth: int) -> dict[str, object]:
        """Read a table."""
        end = self.inside(end, depth)
        table = {}
        while self.at < end:
            name = self.name(end)
            table[name] = self.value(end, depth)
        return table

    def array(self, end: int, depth: int) -> list[object]:
        """Read an array."""
        end = self.inside(end, depth)
        array = []
        while self.at < end:
            array.append(self.value(end, depth))
        return array

    def name(self, end: int) -> str:
        """Read a short string."""
        size = self.p[self.skip(end, 1)]
        data = read_bytes(self.p, self.skip(end, size), size)
        return data.decode("utf-8", "surrogateescape")

    def long_bytes(self, end: int) -> bytes:
        """Read bytes preceded by a 32-bit length."""
        size = load32(self.p, self.skip(end, 4))
        return read_bytes(self.p, self.skip(end, size), size)

    def value(self, end: int, depth: int) -> object:
        """Read a type and its value."""
        p = self.p
        kind = p[self.skip(end, 1)]
        if kind == LONGSTR:
            return text_or_bytes(self.long_bytes(end))
        if kind == BOOL:
            return p[self.skip(end, 1)] != 0
        if kind == TABLE:
            return self.table(end, depth + 1)
        if kind == ARRAY:
            return self.array(end, depth + 1)
        if kind == TIMESTAMP:
            return Timestamp(load64(p, self.skip(end, 8)))
        if kind == VOID:
            return None
        if kind == BYTES:
            return ByteArray(self.long_bytes(end))
        if kind == FLOAT:
            return Float32(FLOAT32.unpack(read_bytes(p, self.skip(end, 4), 4))[0])
        if kind == DOUBLE:
            return FLOAT64.unpack(read_bytes(p, self.skip(end, 8), 8))[0]
        if kind == DECIMAL:
            at = self.skip(end, 5)
            return Decimal(load32(p, at + 1)).scaleb(-p[at])
        return self.integer(end, kind)

    def integer(self, end: int, kind: int) -> int:
        """Read an integer of type `kind`. FrameSyntaxError for an unknown type."""
        p = self.p
        if kind == INT32:
            number = load32(p, self.skip(end, 4))
            return number - 0x100000000 if number > 0x7FFFFFFF else number
        if kind == INT64 or kind == INT64_TOO:
            at = self.skip(end, 8)
            high = load32(p, at)
            low = load32(p, at + 4)
            return (high - 0x100000000 if high > 0x7FFFFFFF else high) * 0x100000000 + low
        if kind == UINT32:
            return load32(p, self.skip(end, 4))
        if kind == INT16:
            number = load16(p, self.skip(end, 2))
            return number - 0x10000 if number > 0x7FFF else number
        if kind == UINT16:
            return load16(p, self.skip(end, 2))
        if kind == INT8:
            number = int(p[self.skip(end, 1)])
            return number - 0x100 if number > 0x7F else number
        if kind == UINT8:
            return int(p[self.skip(end, 1)])
        raise FrameSyntaxError(502, f"a field of the unknown type {kind}")


def text_or_bytes(data: bytes) -> str | bytes:
    """The bytes as text if they are UTF-8, else as they are."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def encoded(text: str) -> bytes:
    """The bytes of a text, with surrogates turned back into the bytes they stand for."""
    return text.encode("utf-8", "surrogateescape")


def write_table(out: bytearray, table: Mapping[str, object], depth: int) -> None:
    start = begin(out, depth)
    for name, value in table.items():
        data = encoded(name)
        if len(data) > 255:
            raise ValueError(f"a field name of {len(data)} bytes")
        out.append(len(data))
        out += data
        write_value(out, value, depth)
    finish(out, start)


def write_array(out: bytearray, array: list[object] | tuple[object, ...], depth: int) -> None:
    start = begin(out, depth)
    for value in array:
        write_value(out, value, depth)
    finish(out, start)


def begin(out: bytearray, depth: int) -> int:
    """Make room for a length; return the position after it, from which it counts."""
    if depth > DEPTH_MAX:
        raise ValueError(f"field tables nested more than {DEPTH_MAX} deep")
    return grow(out, 4) + 4


def finish(out: bytearray, start: int) -> None:
    """Write the length for a start returned by `begin`."""
    store32(address_of_bytearray(out), start - 4, len(out) - start)


def grow(out: bytearray, size: int) -> int:
    """Add `size` bytes; return the position before them."""
    at = len(out)
    resize(out, at + size)
    return at


def write_value(out: bytearray, value: object, depth: int) -> None:
    if isinstance(value, str):
        write_bytes(out, LONGSTR, encoded(value))
    elif isinstance(value, bool):
        out += b"t\x01" if value else b"t\x00"
    elif isinstance(value, int):
        write_integer(out, value)
    elif isinstance(value, dict):
        out.append(TABLE)
        write_table(out, value, depth + 1)
    elif isinstance(value, (list, tuple)):
        out.append(ARRAY)
        write_array(out, value, depth + 1)
    elif value is None:
        out.append(VOID)
    elif isinstance(value, bytes):
        write_bytes(out, BYTES if isinstance(value, ByteArray) else LONGSTR, bytes(value))
    elif isinstance(value, float):
        write_float(out, value)
    elif isinstance(value, Decimal):
        write_decimal(out, value)
    else:
        raise TypeError(f"a field table cannot hold {type(value).__name__}")


def write_bytes(out: bytearray, code: int, data: bytes) -> None:
    at = grow(out, 5 + len(data))
    p = address_of_bytearray(out)
    p[at] = code
    store32(p, at + 1, len(data))
    copy(p, at + 5, address_of_bytes(data), 0, len(data))


def write_integer(out: bytearray, value: int) -> None:
    if isinstance(value, Timestamp):
        if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
            raise ValueError(f"{value} is no timestamp")
        out.append(TIMESTAMP)
        out += value.to_bytes(8, "big")
    elif -0x80000000 <= value <= 0x7FFFFFFF:
        number = value
        at = grow(out, 5)
        p = address_of_bytearray(out)
        p[at] = INT32
        store32(p, at + 1, number & 0xFFFFFFFF)
    elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        number = value
        at = grow(out, 9)
        p = address_of_bytearray(out)
        p[at] = INT64
        store32(p, at + 1, number >> 32 & 0xFFFFFFFF)
        store32(p, at + 5, number & 0xFFFFFFFF)
    else:
        raise ValueError(f"{value} does not fit into 64 bits")


def write_float(out: bytearray, value: float) -> None:
    try:
        if isinstance(value, Float32):
            out += b"f" + FLOAT32.pack(value)
        else:
            out += b"d" + FLOAT64.pack(value)
    except OverflowError:
        raise ValueError(f"{value} does not fit into 32 bits") from None


def write_decimal(out: bytearray, value: Decimal) -> None:
    """Write a scale and an unscaled number: 0 to 255 decimal places, 32 bits, no sign."""
    # Refuse a huge exponent before it becomes a huge number.
    if not value.is_finite() or value < 0 or value.adjusted() > 9:
        raise ValueError(f"{value} is no decimal of a field table")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = -exponent if exponent < 0 else 0
    unscaled = int(value.scaleb(scale))
    if scale > 255 or unscaled > 0xFFFFFFFF:
        raise ValueError(f"{value} is no decimal of a field table")
    out.append(DECIMAL)
    out.append(scale)
    out += unscaled.to_bytes(4, "big")
