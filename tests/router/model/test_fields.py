"""Field values: compared as in RabbitMQ, and worded as in its reply texts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from penstock.amqp.values import Float32, Timestamp
from penstock.bus import pack, unpack
from router.model.fields import equal_tables, shown, typed
from tests.router.strategies import field_values

APART: list[Any] = [None, True, False, 1, 0, -1, 1.0, 0.0, "1", "", b"1", b"\xff", [], [1], [True], {}, {"a": 1}]


@pytest.mark.parametrize("one", APART, ids=repr)
@pytest.mark.parametrize("other", APART, ids=repr)
def test_equal_only_to_itself(one: Any, other: Any) -> None:
    assert (typed(one) == typed(other)) is (one is other)
    assert equal_tables({"a": one}, {"a": other}) is (one is other)


def test_tables_with_other_names_differ() -> None:
    assert equal_tables({}, {})
    assert not equal_tables({}, {"a": 1}) and not equal_tables({"b": 1}, {"a": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [(Timestamp(5), 5), (Float32(0.5), 0.5), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (Decimal("1.0"), Decimal("1.00"))],
    ids=repr,
)
def test_width_and_order_do_not_count(one: Any, other: Any) -> None:
    assert typed(one) == typed(other)
    assert equal_tables({"a": one}, {"a": other})


@given(field_values)
def test_hashable_and_the_same_behind_the_bus(value: Any) -> None:
    assert typed(unpack(pack(value))) == typed(value)
    assert {typed(value), typed(value)} == {typed(value)}


def test_what_no_table_holds() -> None:
    with pytest.raises(TypeError):
        typed(object())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (True, "true"),
        (None, "undefined"),
        ("a'b", "a'b"),
        (b"a\xff", "a\ufffd"),
        (1.5, "1.5"),
        ({"a": True, "b": "c"}, '[{<<"a">>,bool,true},{<<"b">>,longstr,<<"c">>}]'),
        ([1, "a", [None]], '[{signedint,1},{longstr,<<"a">>},{array,[{void,undefined}]}]'),
    ],
)
def test_shown_as_erlang_prints(value: Any, text: str) -> None:
    """Texts observed on RabbitMQ 3.10."""
    assert shown(value) == text
