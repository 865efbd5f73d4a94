"""The wait-for graph of full queues, and the conditions of a deadlock."""

from __future__ import annotations

from typing import Any

import pytest

from ops.flow.circles import USUAL, Times, circles, lockouts, rings

TIMES = Times(1, 5)


def held_channel(connection: str, *queues: int, held: float = 60, party: str = "") -> dict[str, Any]:
    causes = [{"kind": "queue", "id": id, "name": f"q{id}", "shard": 0} for id in queues]
    facts = {"connection": connection, "held_seconds": held, "causes": [*causes, {"kind": "shard", "shard": 0}]}
    return {**facts, "party": party or connection, "settles": True}


def consumer(
    connection: str | None, in_hand: int = 1, settled: float | None = 60, party: str | None = None, prefetch: int = 0,
    usual: float | None = None, full: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    facts = {"connection": connection, "in_hand": in_hand, "settled_seconds": settled, "active": True}
    facts |= {"usual_seconds": usual, "full": full}
    return {**facts, "party": party or connection, "prefetch": prefetch}


def found(held: list[dict[str, Any]], queues: dict[int, list[dict[str, Any]]]) -> list[set[str]]:
    made = circles(held, lambda cause: queues[cause["id"]], lambda each: each["connection"], TIMES)
    return [set(circle.connections) for circle in made]


def test_two_clients_in_a_ring() -> None:
    held, queues = [held_channel("a", 1), held_channel("b", 2)], {1: [consumer("b")], 2: [consumer("a", settled=None)]}
    assert found(held, queues) == [{"a", "b"}]
    (circle,) = circles(held, lambda cause: queues[cause["id"]], lambda each: each["connection"], TIMES)
    assert str(circle) == (
        "connection a waits for queue 'q1'; its consumer connection b waits for queue 'q2', consumed by connection a"
    )


def test_one_that_waits_for_itself() -> None:
    assert found([held_channel("a", 1)], {1: [consumer("a")]}) == [{"a"}]


def test_a_longer_one_beside_others() -> None:
    held = [
        held_channel("a", 1),
        held_channel("b", 2),
        held_channel("c", 3),
        held_channel("d", 4),
        held_channel("e", 1),
    ]
    queues = {1: [consumer("b")], 2: [consumer("c")], 3: [consumer("a")], 4: [consumer(None)]}
    assert found(held, queues) == [{"a", "b", "c"}]


@pytest.mark.parametrize(
    ("held", "consumers"),
    [
        ([held_channel("a", 1, held=0.9), held_channel("b", 2)], [consumer("a")]),
        ([held_channel("a", 1), held_channel("b", 2, held=4)], [consumer("a")]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a"), consumer("free")]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a"), consumer(None)]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a", settled=1)]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a", settled=0.9, usual=0.001)]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a", settled=10, usual=1)]),
        ([held_channel("a", 1), held_channel("b", 2)], [consumer("a", in_hand=0)]),
        ([held_channel("a", 1), held_channel("b", 2)], []),
    ],
    ids=[
        "not for long",
        "not for long enough to know",
        "another goes on",
        "one of nobody",
        "it settles",
        "it settles soon",
        "it is slow",
        "it has nothing",
        "no consumers",
    ],
)
def test_none(held: list[dict[str, Any]], consumers: list[dict[str, Any]]) -> None:
    assert found(held, {1: [consumer("b")], 2: consumers}) == []


def test_two_circles() -> None:
    held = [held_channel(connection, id) for connection, id in (("a", 1), ("b", 2), ("c", 3), ("d", 4))]
    queues = {1: [consumer("b")], 2: [consumer("a")], 3: [consumer("d")], 4: [consumer("c")]}
    assert found(held, queues) == [{"a", "b"}, {"c", "d"}]


def test_those_that_are_quick_are_found_soon() -> None:
    held = [held_channel("a", 1, held=1), held_channel("b", 2, held=1)]
    queues = {1: [consumer("b", settled=1, usual=1 / USUAL)], 2: [consumer("a", settled=1, usual=0.001)]}
    assert found(held, queues) == [{"a", "b"}]


def test_a_program_that_feeds_itself_on_separate_connections() -> None:
    """The circle is found only after the longer time: it may be a producer beside a consumer that is slow for once."""
    held = [held_channel("a2", 1, held=5, party="a")]
    assert found(held, {1: [consumer("a1", settled=4.9, usual=0.001, party="a")]}) == []
    assert found(held, {1: [consumer("a1", settled=5, usual=0.001, party="a")]}) == [{"a2"}]
    assert found(held, {1: [consumer("a1", settled=None, party="a")]}) == [{"a2"}]


def test_programs_that_consume_and_publish_on_separate_connections() -> None:
    held = [held_channel("a2", 1, party="a"), held_channel("b2", 2, party="b")]
    queues = {1: [consumer("b1", party="b")], 2: [consumer("a1", party="a")]}
    assert found(held, queues) == [{"a2", "b2"}]


@pytest.mark.parametrize(
    ("held", "queues"),
    [
        ([held_channel("a2", 1, party="a")], {1: [consumer("a1", party="a", settled=60, usual=4)]}),
        ([held_channel("a2", 1, party="a"), held_channel("b2", 2, party="b")],
         {1: [consumer("b1", party="b")], 2: [consumer("c1", party="c")]}),
        ([held_channel("a2", 1, party="a"), held_channel("b2", 2, party="b")],
         {1: [consumer("b1", party="b")], 2: [consumer("a1", party="a", settled=1)]}),
    ],
    ids=["a slow consumer and its own producer", "another's", "it settles"],
)  # fmt: skip
def test_no_circle_of_parties(held: list[dict[str, Any]], queues: dict[int, list[dict[str, Any]]]) -> None:
    assert found(held, queues) == []


def test_a_lockout() -> None:
    queues = {1: [consumer("b"), consumer("c", prefetch=1)]}
    (one,) = lockouts([held_channel("a", 1)], lambda cause: queues[cause["id"]], lambda cause: True, TIMES)
    assert str(one) == "queue 'q1' is full of unacked messages, and its consumers wait for more"


@pytest.mark.parametrize(
    ("consumers", "still", "held"),
    [
        ([consumer("b", prefetch=1)], True, 60),
        ([consumer("b", full="channel")], True, 60),
        ([consumer("b"), consumer("c", settled=1)], True, 60),
        ([consumer("b")], False, 60),
        ([consumer("b")], True, 1),
        ([], True, 60),
        ([consumer("d")], True, 60),
    ],
    ids=[
        "its prefetch is full",
        "so are its channel's hands",
        "one settles",
        "something moves",
        "not for long",
        "no consumers",
        "it is held lately",
    ],
)
def test_no_lockout(consumers: list[dict[str, Any]], still: bool, held: float) -> None:
    channels = [held_channel("a", 1, held=held), held_channel("d", 2, held=4)]
    assert lockouts(channels, lambda cause: consumers, lambda cause: still, TIMES) == []


QUICK = Times(0.2, 1)
RING = {1: [consumer("b", settled=0.2, usual=0.001)], 2: [consumer("a", settled=0.2, usual=0.001)]}


def found_rings(held: list[dict[str, Any]], queues: dict[int, list[dict[str, Any]]]) -> list[set[str]]:
    made = rings(held, lambda cause: queues[cause["id"]], lambda each: each["connection"], QUICK)
    return [set(circle.connections) for circle in made]


def test_a_ring_is_found_early() -> None:
    assert found_rings([held_channel("a", 1, held=0.2), held_channel("b", 2, held=0.2)], RING) == [{"a", "b"}]


def test_a_ring_of_which_nobody_knows_how_quick_it_is() -> None:
    queues = {1: [consumer("b", settled=None)], 2: [consumer("a", settled=None)]}
    assert found_rings([held_channel("a", 1, held=0.9), held_channel("b", 2, held=1)], queues) == []
    assert found_rings([held_channel("a", 1, held=1), held_channel("b", 2, held=1)], queues) == [{"a", "b"}]


@pytest.mark.parametrize(
    ("held", "queues"),
    [
        ([held_channel("a", 1), held_channel("b", 2)], RING | {2: [consumer("a", settled=2, usual=0.2)]}),
        ([held_channel("a", 1), held_channel("b", 2)], RING | {2: [*RING[2], consumer("c", settled=60, usual=0.001)]}),
        ([held_channel("a2", 1, party="a"), held_channel("b", 2)], RING | {2: [consumer("a1", party="a")]}),
        ([held_channel("a", 1)], {1: [consumer("a")]}),
        ([held_channel("a", 1), held_channel("b", 1)], {1: [consumer("a"), consumer("b")]}),
    ],
    ids=[
        "one is slow", "another consumer", "publishes on another connection", "one queue", "one queue of two programs",
    ],
)  # fmt: skip
def test_no_ring(held: list[dict[str, Any]], queues: dict[int, list[dict[str, Any]]]) -> None:
    assert found_rings(held, queues) == []
