"""Who waits for whom among full queues, and when that is a deadlock."""

from __future__ import annotations

from typing import Any

import pytest

from ops.flow.circles import circles

SECONDS = 5


def session(connection: str, *queues: int, held: float = 60) -> dict[str, Any]:
    causes = [{"kind": "queue", "id": id, "name": f"q{id}", "shard": 0} for id in queues]
    return {"connection": connection, "held_seconds": held, "causes": [*causes, {"kind": "shard", "shard": 0}]}


def consumer(connection: str | None, in_hand: int = 1, settled: float | None = 60) -> dict[str, Any]:
    return {"connection": connection, "in_hand": in_hand, "settled_seconds": settled}


def found(held: list[dict[str, Any]], queues: dict[int, list[dict[str, Any]]]) -> list[set[str]]:
    made = circles(held, lambda cause: queues[cause["id"]], lambda each: each["connection"], SECONDS)
    return [set(circle.connections) for circle in made]


def test_two_clients_in_a_ring() -> None:
    held, queues = [session("a", 1), session("b", 2)], {1: [consumer("b")], 2: [consumer("a", settled=None)]}
    assert found(held, queues) == [{"a", "b"}]
    (circle,) = circles(held, lambda cause: queues[cause["id"]], lambda each: each["connection"], SECONDS)
    assert str(circle) == (
        "connection a waits for queue 'q1', whose consumers are of connection b waits for queue 'q2', "
        "whose consumers are of connection a"
    )


def test_one_that_waits_for_itself() -> None:
    assert found([session("a", 1)], {1: [consumer("a")]}) == [{"a"}]


def test_a_longer_one_beside_others() -> None:
    held = [session("a", 1), session("b", 2), session("c", 3), session("d", 4), session("e", 1)]
    queues = {1: [consumer("b")], 2: [consumer("c")], 3: [consumer("a")], 4: [consumer(None)]}
    assert found(held, queues) == [{"a", "b", "c"}]


@pytest.mark.parametrize(
    ("held", "consumers"),
    [
        ([session("a", 1, held=1), session("b", 2)], [consumer("a")]),
        ([session("a", 1), session("b", 2)], [consumer("a"), consumer("free")]),
        ([session("a", 1), session("b", 2)], [consumer("a"), consumer(None)]),
        ([session("a", 1), session("b", 2)], [consumer("a", settled=1)]),
        ([session("a", 1), session("b", 2)], [consumer("a", in_hand=0)]),
        ([session("a", 1), session("b", 2)], []),
    ],
    ids=["not for long", "another goes on", "one of nobody", "it settles", "it has nothing", "no consumers"],
)
def test_none(held: list[dict[str, Any]], consumers: list[dict[str, Any]]) -> None:
    assert found(held, {1: [consumer("b")], 2: consumers}) == []


def test_two_circles() -> None:
    held = [session(connection, id) for connection, id in (("a", 1), ("b", 2), ("c", 3), ("d", 4))]
    queues = {1: [consumer("b")], 2: [consumer("a")], 3: [consumer("d")], 4: [consumer("c")]}
    assert found(held, queues) == [{"a", "b"}, {"c", "d"}]
