"""Content headers split and joined: parts that are not replaced keep their exact bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import decode_properties, encode_properties
from penstock.amqp.splice import (
    array,
    items,
    join_properties,
    join_table,
    number,
    shortstr,
    split_properties,
    split_table,
    table,
    text,
    text_of,
    timestamp,
)
from penstock.amqp.tables_cy import decode_table
from tests.frames import Reader, Timestamp
from tests.penstock.amqp import strategies
from tests.penstock.amqp.test_properties import any_properties

TABLE = join_table({b"s": b"s\x00\x07", b"list": array([text(b"a"), b"V"]), b"inner": table({b"t": timestamp(7)})})
PROPERTIES = encode_properties({"content_type": "text/plain", "headers": {"a": 1}, "priority": 3, "timestamp": 9})

fields = st.binary(max_size=40).map(text) | strategies.wire_tables.map(lambda data: b"F" + data)


@given(any_properties)
def test_properties_that_are_split_and_joined_are_the_same(properties: dict[str, Any]) -> None:
    nbytes = encode_properties(properties)
    split = split_properties(nbytes)
    assert split.keys() == properties.keys()
    assert join_properties(split) == nbytes


@given(st.dictionaries(st.binary(max_size=255), fields, max_size=5))
def test_tables_that_are_split_and_joined_are_the_same(made: dict[bytes, bytes]) -> None:
    nbytes = join_table(made)
    assert split_table(nbytes) == made
    assert join_table(split_table(nbytes)) == nbytes


@given(strategies.wire_tables)
def test_fields_of_every_type_keep_their_values(data: bytes) -> None:
    again = join_table(split_table(data))
    assert repr(decode_table(again, 0, len(again))[0]) == repr(decode_table(data, 0, len(data))[0])


def test_a_replaced_part_leaves_the_others_as_they_were() -> None:
    properties = split_properties(PROPERTIES)
    headers = split_table(properties["headers"])
    properties["headers"] = join_table({**headers, b"a": b"s\x00\x01", b"b": text(b"new")})
    properties["expiration"] = shortstr(b"60")
    assert decode_properties(join_properties(properties)) == {
        "content_type": "text/plain", "headers": {"a": 1, "b": "new"}, "priority": 3,
        "expiration": "60", "timestamp": 9,
    }  # fmt: skip
    assert b"\x01as\x00\x01" in join_properties(properties)


@pytest.mark.parametrize(
    ("split", "data", "code", "words"),
    [
        (split_properties, PROPERTIES, 501, "the properties are cut short"),
        (split_table, TABLE, 502, "a table is malformed"),
    ],
)
def test_what_is_cut_short_is_refused(split: Callable[[bytes], object], data: bytes, code: int, words: str) -> None:
    split(data)
    for end in range(len(data)):
        with pytest.raises(FrameSyntaxError, match=words) as caught:
            split(data[:end])
        assert caught.value.code == code


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\x00\x00\x03\x01aZ", id="unknown type"),
        pytest.param(b"\x00\x00\x00\x04\x01as\x00\x01", id="a field that exceeds the table"),
    ],
)
def test_fields_that_do_not_fill_their_table_are_refused(data: bytes) -> None:
    with pytest.raises(FrameSyntaxError, match="a table is malformed"):
        split_table(data)


def test_an_array_yields_its_items_and_no_other_field_does() -> None:
    parts = [text(b"a"), number(-1), b"t\x01", b"V", table({b"n": number(2)}), array([])]
    assert list(items(array(parts))) == parts
    assert [list(items(field)) for field in (array([]), text(b"abcdef"), table({b"n": b"V"}), b"V", b"")] == [[]] * 5


def test_only_a_long_string_has_a_text() -> None:
    assert text_of(text(b"caf\xe9")) == b"caf\xe9" and text_of(text(b"")) == b""
    assert [text_of(field) for field in (None, b"V", number(5), array([text(b"a")]), b"x\x00\x00\x00\x01a")] == [
        None
    ] * 5


def test_the_fields_are_as_the_specification_says() -> None:
    made = {b"n": number(-5), b"t": timestamp(7), b"s": text(b"x"), b"l": array([text(b"a"), number(2**40)])}
    read = Reader(join_table({**made, b"f": table(made)})).table()
    values = {"n": -5, "t": Timestamp(7), "s": "x", "l": ["a", 2**40]}
    assert read == {**values, "f": values}


def test_a_short_string_has_at_most_255_bytes() -> None:
    assert shortstr(b"x" * 255) == b"\xff" + b"x" * 255
    with pytest.raises(ValueError, match=r"range\(0, 256\)"):
        shortstr(b"x" * 256)
