"""Records are values: made from a change, compared by the fields that count, and named as in reply texts."""

from __future__ import annotations

import pytest

from router.model.records import Binding, Exchange, Queue

QUEUE = Queue("/", "q", 1, 3, 0, True, False, None, {}, [5, None, "drop-head", 0, 0, 0, 0], [])
EXCHANGE = Exchange("/", "x", "topic", True, False, True, {"alternate-exchange": "y"})
BINDING = Binding("/", "x", "queue", "q", "k", {"a": 1, "b": True})


@pytest.mark.parametrize("record", [QUEUE, EXCHANGE, BINDING], ids=lambda record: type(record).__name__)
def test_a_change_makes_the_same_record(record: Queue | Exchange | Binding) -> None:
    again = type(record)(*record.change()[1:])
    assert again == record
    assert {again, record} == {record}


def test_names_in_reply_texts() -> None:
    assert (str(QUEUE), str(EXCHANGE)) == ("queue 'q' in vhost '/'", "exchange 'x' in vhost '/'")


def test_bindings_differ_by_the_types_in_their_arguments() -> None:
    assert Binding("/", "x", "queue", "q", "k", {"b": True, "a": 1}) == BINDING
    assert Binding("/", "x", "queue", "q", "k", {"a": 1, "b": 1}) != BINDING
    assert Binding("/", "x", "queue", "q", "k", {"a": 1.0, "b": True}) != BINDING
    assert Binding("/", "x", "exchange", "q", "k", {"a": 1, "b": True}) != BINDING


@pytest.mark.parametrize(("arguments", "alternate"), [({}, None), ({"alternate-exchange": b"\xff"}, None)])
def test_no_alternate(arguments: dict[str, object], alternate: None) -> None:
    assert EXCHANGE.alternate == "y"
    assert Exchange("/", "x", "topic", True, False, True, arguments).alternate is alternate
