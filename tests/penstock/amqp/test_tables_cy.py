"""Field tables (AMQP 0-9-1, 4.2.5.5), compiled and plain side by side."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.values import ByteArray, Float32, Timestamp
from tests import frames
from tests.penstock.amqp import corpus, strategies
from tests.twins import load_compiled, load_plain

NAME = "penstock.amqp.tables_cy"
COMPILED, PLAIN = load_compiled(NAME), load_plain(NAME)


class Colour(StrEnum):
    RED = "red"


@pytest.fixture(params=[COMPILED, PLAIN], ids=["compiled", "plain"])
def tables(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def one(code: str, nbytes: str) -> bytes:
    """Return a table with the single field `a`."""
    field = b"\x01a" + code.encode() + bytes.fromhex(nbytes)
    return len(field).to_bytes(4, "big") + field


def exact(value: Any) -> Any:
    """Return a value with its types, comparable even if it contains NaN."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact(inner) for inner in value]
    return type(value).__name__, repr(value)


def outcome(read: Any, *arguments: Any) -> Any:
    """Return a reader's result, or the documented error; any other exception fails the test."""
    try:
        table, at = read(*arguments)
    except FrameSyntaxError as error:
        return error.code, error.text
    return exact(table), at


@pytest.mark.parametrize(
    ("code", "nbytes", "value", "word"),
    [
        ("S", "00000002 6869", "hi", "longstr"),
        ("S", "00000000", "", "longstr"),
        ("S", "00000002 ff80", b"\xff\x80", "longstr"),
        ("x", "00000002 6869", ByteArray(b"hi"), "binary"),
        ("t", "00", False, "bool"),
        ("t", "01", True, "bool"),
        ("t", "02", True, "bool"),
        ("b", "80", -128, "byte"),
        ("B", "80", 128, "unsignedbyte"),
        ("s", "8000", -32768, "short"),
        ("u", "8000", 32768, "unsignedshort"),
        ("I", "80000000", -(2**31), "signedint"),
        ("I", "7fffffff", 2**31 - 1, "signedint"),
        ("i", "80000000", 2**31, "unsignedint"),
        ("l", "8000000000000000", -(2**63), "long"),
        ("l", "7fffffffffffffff", 2**63 - 1, "long"),
        ("l", "ffffffffffffffff", -1, "long"),
        ("L", "fffffffffffffffe", -2, "long"),
        ("f", "3f000000", Float32(0.5), "float"),
        ("d", "3fe0000000000000", 0.5, "double"),
        ("D", "03 00003039", Decimal("12.345"), "decimal"),
        ("D", "00 ffffffff", Decimal(2**32 - 1), "decimal"),
        ("T", "ffffffffffffffff", Timestamp(2**64 - 1), "timestamp"),
        ("V", "", None, "void"),
        ("F", "00000000", {}, "table"),
        ("F", "00000003 016256", {"b": None}, "table"),
        ("A", "00000000", [], "array"),
        ("A", "00000003 567401", [None, True], "array"),
    ],
)
def test_every_type_is_read(tables: ModuleType, code: str, nbytes: str, value: object, word: str) -> None:
    """4.2.5.5, and RabbitMQ's errata for L (signed) and for types that 0-9-1 omits."""
    data = one(code, nbytes)
    assert outcome(tables.decode_table, data, 0, len(data)) == (exact({"a": value}), len(data))
    assert tables.table_types(data, 0, len(data)) == ({"a": word}, len(data))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("hi", ("S", "00000002 6869")),
        ("\udcff", ("S", "00000001 ff")),
        (b"hi", ("S", "00000002 6869")),
        (Colour.RED, ("S", "00000003 726564")),
        (ByteArray(b"hi"), ("x", "00000002 6869")),
        (True, ("t", "01")),
        (False, ("t", "00")),
        (1, ("I", "00000001")),
        (-1, ("I", "ffffffff")),
        (-(2**31), ("I", "80000000")),
        (2**31 - 1, ("I", "7fffffff")),
        (2**31, ("l", "0000000080000000")),
        (-(2**31) - 1, ("l", "ffffffff7fffffff")),
        (-(2**63), ("l", "8000000000000000")),
        (2**63 - 1, ("l", "7fffffffffffffff")),
        (0.5, ("d", "3fe0000000000000")),
        (Float32(0.5), ("f", "3f000000")),
        (Decimal("12.345"), ("D", "03 00003039")),
        (Decimal("1E+3"), ("D", "00 000003e8")),
        (Timestamp(5), ("T", "0000000000000005")),
        (None, ("V", "")),
        ({"b": None}, ("F", "00000003 016256")),
        ([None, True], ("A", "00000003 567401")),
        ((None,), ("A", "00000001 56")),
    ],
    ids=repr,
)
def test_every_type_is_written(tables: ModuleType, value: object, written: tuple[str, str]) -> None:
    assert tables.encode_table({"a": value}) == one(*written)


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Timestamp(-1),
        Timestamp(2**64),
        Float32(1e39),
        Decimal("-1"),
        Decimal("NaN"),
        Decimal(2**32),
        Decimal("1E+1000000"),
        Decimal("1E-256"),
        "\ud800",
    ],
    ids=repr,
)
def test_what_does_not_fit_is_not_written(tables: ModuleType, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the type is what is documented
        tables.encode_table({"a": [value]})


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, bytearray(b"a")], ids=lambda value: type(value).__name__)
def test_what_no_table_holds_is_not_written(tables: ModuleType, value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        tables.encode_table({"a": value})


def test_names_have_at_most_255_bytes(tables: ModuleType) -> None:
    """4.2.5.3: the length of a short string is one byte."""
    encoded = tables.encode_table({"é" * 127 + "a": None})
    assert tables.decode_table(encoded, 0, len(encoded)) == ({"é" * 127 + "a": None}, len(encoded))
    with pytest.raises(ValueError, match="256 bytes"):
        tables.encode_table({"é" * 128: None})


def test_64_levels_are_read_and_written(tables: ModuleType) -> None:
    table: dict[str, object] = {}
    for _ in range(64):
        table = {"a": table}
    encoded = tables.encode_table(table)
    assert tables.decode_table(encoded, 0, len(encoded)) == (table, len(encoded))
    with pytest.raises(ValueError, match="64 deep"):
        tables.encode_table({"a": table})


def test_a_table_within_itself_is_refused(tables: ModuleType) -> None:
    table: dict[str, object] = {}
    table["a"] = [table]
    with pytest.raises(ValueError, match="64 deep"):
        tables.encode_table(table)


@pytest.mark.parametrize("code", ["F", "A"])
def test_hostile_nesting_ends_in_the_documented_error(tables: ModuleType, code: str) -> None:
    name = b"\x00" if code == "F" else b""
    level = len(name) + 5
    levels = [name + code.encode() + (level * left).to_bytes(4, "big") for left in reversed(range(20000))]
    inside = b"\x01a" + b"".join(levels)[len(name) :]
    data = len(inside).to_bytes(4, "big") + inside
    with pytest.raises(FrameSyntaxError, match="64 deep") as caught:
        tables.decode_table(data, 0, len(data))
    assert caught.value.code == 502


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, ByteArray])
def test_any_buffer_is_read_from_any_place(tables: ModuleType, kind: Any) -> None:
    data = one("S", "00000002 6869")
    buffer = kind(b"\xffabc" + data + b"\xffdef")
    assert tables.decode_table(buffer, 4, len(buffer)) == ({"a": "hi"}, 4 + len(data))
    assert tables.decode_table(buffer, 4, 4 + len(data)) == ({"a": "hi"}, 4 + len(data))
    with pytest.raises(FrameSyntaxError):
        tables.decode_table(buffer, 4, 3 + len(data))


@pytest.mark.parametrize(("offset", "end"), [(-1, 4), (0, 9), (5, 4), (9, 9)])
def test_a_place_outside_the_buffer_is_our_own_mistake(tables: ModuleType, offset: int, end: int) -> None:
    for buffer in bytes(8), memoryview(bytes(8)):
        with pytest.raises(ValueError, match="in a buffer of 8 bytes"):
            tables.decode_table(buffer, offset, end)


@pytest.mark.parametrize(("data", "code"), corpus.at_the_limits("tables"))
def test_bytes_at_the_limits(tables: ModuleType, data: bytes, code: int | None) -> None:
    result = outcome(tables.decode_table, data, 0, len(data))
    assert (result[0] if code else None) == code, result
    assert code or isinstance(result[0], dict)


@given(strategies.tables)
def test_what_was_written_is_read_back(table: dict[str, object]) -> None:
    encoded = COMPILED.encode_table(table)
    assert PLAIN.encode_table(table) == encoded
    for tables in COMPILED, PLAIN:
        assert outcome(tables.decode_table, encoded, 0, len(encoded)) == (exact(table), len(encoded))


@given(strategies.wire_tables)
def test_every_well_formed_table_is_read_and_can_be_written_again(data: bytes) -> None:
    table, at = COMPILED.decode_table(data, 0, len(data))
    assert at == len(data)
    again = COMPILED.encode_table(table)
    assert exact(COMPILED.decode_table(again, 0, len(again))[0]) == exact(table)
    assert outcome(PLAIN.decode_table, data, 0, len(data)) == (exact(table), at)
    assert PLAIN.encode_table(table) == again


@given(
    st.one_of(
        st.binary(max_size=80),
        strategies.damaged(strategies.wire_tables),
        strategies.damaged(st.sampled_from(corpus.nbytes("tables"))),
    ),
    st.binary(max_size=8),
)
def test_any_bytes_are_read_or_end_in_the_documented_error(data: bytes, round_it: bytes) -> None:
    """Compiled and plain agree, and bytes around the table make no difference: they are not read."""
    buffer = round_it + data + round_it
    start, end = len(round_it), len(round_it) + len(data)
    for read in "decode_table", "table_types":
        compiled, plain = getattr(COMPILED, read), getattr(PLAIN, read)
        expected = outcome(compiled, buffer, start, end)
        assert outcome(plain, buffer, start, end) == expected
        assert outcome(compiled, memoryview(bytearray(start) + data + b"\xff" * 9), start, end) == expected


def test_an_independent_writer_is_understood(tables: ModuleType) -> None:
    table = {"n": 1, "text": "é", "yes": True, "when": frames.Timestamp(7), "list": [1, None], "raw": b"\xff", "t": {}}
    encoded = frames.table(table)
    expected = {**table, "when": Timestamp(7), "raw": ByteArray(b"\xff")}
    assert outcome(tables.decode_table, encoded, 0, len(encoded)) == (exact(expected), len(encoded))


def test_an_independent_reader_understands(tables: ModuleType) -> None:
    table = {"n": -1, "big": 2**40, "text": "é", "yes": True, "list": [1.5, None], "t": {"a": {}}}
    assert frames.Reader(tables.encode_table(table)).table() == table
