"""Delays of messages, and the index of a delayed message exchange over those of all types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.errors import AMQPError
from router.model.delaying import DELAY_MAX, check_no_delay_queue, delay_of, delay_queue_of, delayed_by, is_delay_queue
from router.model.index import match
from router.model.matching import INDEXES, index_of, keys_read
from router.model.records import DELAYED_MESSAGE, DELAYED_TYPE, Binding, Exchange, Queue
from router.model.topics_cy import Memory

WAITING = ("queue", delay_queue_of("x"))


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        (1, 1),
        (2**63 - 1, DELAY_MAX),
        ("250", 250),
        ("+7", 7),
        (1.9, 1),
        (float("inf"), DELAY_MAX),
        (0, 0),
        (-5, 0),
        ("-5", 0),
        ("soon", 0),
        ("9" * 30, 0),
        (float("nan"), 0),
        (True, 0),
        (None, 0),
        (Decimal(5), 0),
        (b"5", 0),
        ([5], 0),
        ({"a": 5}, 0),
    ],
)
def test_a_delay_is_a_number_above_zero(value: object, delay: int) -> None:
    assert delay_of({"x-delay": value}) == delay


def test_a_message_without_the_header_is_not_delayed() -> None:
    assert delay_of({}) == delay_of({"X-Delay": 5}) == 0


@given(st.text())
def test_a_delay_queue_is_known_by_its_name(exchange: str) -> None:
    assert is_delay_queue(delay_queue_of(exchange)) and delayed_by(delay_queue_of(exchange)) == exchange


def test_nothing_else_may_use_a_delay_queue() -> None:
    def queue(name: str) -> Queue:
        return Queue("/", name, 1, 1, 0, True, False, None, {}, [], [])

    check_no_delay_queue(queue("orders"))
    with pytest.raises(AMQPError) as refused:
        check_no_delay_queue(queue(delay_queue_of("x")))
    assert refused.value.code == 403 and "exchange 'x'" in refused.value.text


def exchange(kind: str, **arguments: Any) -> Exchange:
    return Exchange("/", "x", DELAYED_MESSAGE, True, False, False, {DELAYED_TYPE: kind, **arguments})


@pytest.mark.parametrize(
    ("kind", "key", "arguments", "of_exchange"),
    [
        ("direct", "a.b", {}, {}),
        ("fanout", "", {}, {}),
        ("topic", "a.*", {}, {}),
        ("headers", "", {"h": 1}, {}),
        ("x-consistent-hash", "3", {}, {}),
        ("x-consistent-hash", "3", {}, {"hash-property": "message_id"}),
        ("x-consistent-hash", "3", {}, {"hash-header": "h"}),
    ],
    ids=str,
)
def test_delayed_messages_wait_and_others_are_routed_by_the_bindings(
    kind: str, key: str, arguments: dict[str, Any], of_exchange: dict[str, Any]
) -> None:
    index = index_of(exchange(kind, **of_exchange), Memory())
    binding = Binding("/", "x", "queue", "q", key, arguments)
    index.add(binding)
    for delay in (None, 0, -7):
        headers = {"h": 1} if delay is None else {"h": 1, "x-delay": delay}
        assert list(match(index, "a.b", {"headers": headers, "message_id": "m"})) == [binding.target]
    assert list(match(index, "a.b", {"headers": {"h": 1, "x-delay": 1}, "message_id": "m"})) == [WAITING]
    index.remove(binding)
    assert list(match(index, "a.b", {"headers": {"h": 1}, "message_id": "m"})) == []


@pytest.mark.parametrize("kind", INDEXES)
def test_messages_with_equal_traits_take_the_same_way(kind: str) -> None:
    index = index_of(exchange(kind, **{"hash-header": "h"}), Memory())
    for number in range(1, 4):
        index.add(Binding("/", "x", "queue", f"q{number}", str(number), {"h": number}))
    ways: dict[tuple[object, ...], list[object]] = {}
    for h in range(5):
        for delay in (-1, 0, 1, 1000):
            properties = {"headers": {"h": h, "x-delay": delay}}
            traits = tuple(sorted(map(repr, index.traits(properties))))  # type: ignore[attr-defined]
            way = sorted(match(index, "1", properties), key=repr)
            assert ways.setdefault(traits, way) == way
    assert [WAITING] in ways.values() and len(ways) >= 2


def test_it_reads_the_properties_that_its_routing_reads_as_well() -> None:
    assert index_of(exchange("direct"), Memory()).reads == ("headers",)  # type: ignore[attr-defined]
    hashing = index_of(exchange("x-consistent-hash", **{"hash-property": "message_id"}), Memory())
    assert set(hashing.reads) == {"headers", "message_id"}  # type: ignore[attr-defined]
    assert keys_read(hashing, ["a", "b"]) == ["a"]
    assert keys_read(index_of(exchange("direct"), Memory()), ["a", "b"]) == ["a", "b"]
