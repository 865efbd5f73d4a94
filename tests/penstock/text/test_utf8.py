"""Clients' texts as JSON and terminals can show them."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.text.utf8 import readable

names = st.binary(max_size=6).map(lambda data: data.decode("utf-8", "surrogateescape")) | st.text(
    "a\ud800\udfffé", max_size=3
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_any_value_becomes_fit_for_json(value: Any) -> None:
    shown = readable(value)
    assert orjson.loads(orjson.dumps(shown)) == shown
    assert readable(shown) == shown


@given(st.recursive(st.none() | st.text(st.characters(codec="utf-8")), lambda inner: st.lists(inner, max_size=3)))
def test_a_value_in_utf_8_stays_the_same(value: Any) -> None:
    assert readable(value) == value


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"caf\xe9", "caf\ufffd"), (b"\xff\xfe", "\ufffd\ufffd"), ("café".encode(), "café"), (b"\xe2\x82", "\ufffd")],
)
def test_replacement_characters_stand_for_other_bytes(data: bytes, text: str) -> None:
    name = data.decode("utf-8", "surrogateescape")
    assert readable({name: [name, 5, {"a": name}]}) == {text: [text, 5, {"a": text}]}


def test_the_value_itself_stays_as_it_was() -> None:
    value = {"queue": "q\udcff", "victims": ["a\udcff"]}
    before = json.dumps(value)
    readable(value)
    assert json.dumps(value) == before
