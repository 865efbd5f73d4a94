"""Strategies for the codec's tests: field tables as values and as bytes, and damage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.amqp.values import ByteArray, Float32, Timestamp

Strategy = st.SearchStrategy[Any]

# Text that fits a short string of 255 bytes; also with broken UTF-8.
texts: Strategy = st.text(st.characters(codec="utf-8"), max_size=60)
shortstrs: Strategy = st.one_of(
    texts,
    st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape")),
)

_scalars: Strategy = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(Float32),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.binary(max_size=20).map(ByteArray),
    st.binary(max_size=20).map(lambda data: b"\xff" + data),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.builds(lambda number, scale: Decimal(number).scaleb(-scale), st.integers(0, 2**32 - 1), st.integers(0, 255)),
)
_values: Strategy = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(shortstrs, inner, max_size=4),
    max_leaves=12,
)

# Python tables whose values survive encoding and decoding unchanged.
tables: Strategy = st.dictionaries(shortstrs, _values, max_size=5)


def _counted(size: int) -> Strategy:
    return st.binary(max_size=40).map(lambda data: len(data).to_bytes(size, "big") + data)


def _fixed(code: bytes, size: int) -> Strategy:
    return st.binary(min_size=size, max_size=size).map(lambda nbytes: code + nbytes)


_WIDTHS = {b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"u": 2, b"I": 4, b"i": 4, b"f": 4, b"D": 5, b"l": 8, b"L": 8, b"d": 8}
_wire_scalars: Strategy = st.one_of(
    *(_fixed(code, size) for code, size in [*_WIDTHS.items(), (b"T", 8), (b"V", 0)]),
    _counted(4).map(lambda data: b"S" + data),
    _counted(4).map(lambda data: b"x" + data),
)


def _enclosed(code: bytes, parts: list[bytes]) -> bytes:
    inside = b"".join(parts)
    return code + len(inside).to_bytes(4, "big") + inside


def _wire_table(code: bytes, values: Strategy) -> Strategy:
    return st.lists(st.tuples(_counted(1), values).map(b"".join), max_size=4).map(lambda p: _enclosed(code, p))


_wire_values: Strategy = st.recursive(
    _wire_scalars,
    lambda inner: _wire_table(b"F", inner) | st.lists(inner, max_size=4).map(lambda parts: _enclosed(b"A", parts)),
    max_leaves=10,
)

# Encoded tables with every type code in use and any value.
wire_tables: Strategy = _wire_table(b"", _wire_values)


def _damage(data: bytes, at: int, replaced: int, by: bytes) -> bytes:
    at %= len(data) + 1
    return data[:at] + by + data[at + replaced :]


def damaged(nbytes: Strategy) -> Strategy:
    """Draw bytes of which a few are replaced, removed or inserted."""
    return st.builds(_damage, nbytes, st.integers(0, 300), st.integers(0, 4), st.binary(max_size=4))
