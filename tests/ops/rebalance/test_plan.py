"""A plan as a value: read as it was written, undone as far as its queues are still where it put them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given

from ops.rebalance.goals import Home, Rules, Shard
from ops.rebalance.plan import FORMAT, Move, Plan, PlanError, World, identity, undo_plan
from ops.rebalance.rows import QueueRow
from tests.ops.rebalance.synthetic import NOW, made_or_none, moved, unhurried, worlds

MOVES = (
    Move("/", "a", 1, 0, 1, "load", messages=3, nbytes=30, rate=2.5, pause_ms=10.0),
    Move("v\udcff", "b", 2, 1, 0, "leaving"),
)
PLAN = Plan(
    "20270115-080000-0123abcd", NOW, NOW + 60, 7, {"source": "test"}, {"load": 2}, {"load": 1}, MOVES, ("note",), "old"
)


def world(*homes: Home, version: int = 9) -> World:
    return World(homes, [Shard(0), Shard(1), Shard(2)], version)


def test_it_is_read_as_it_was_written() -> None:
    for plan in (PLAN, replace(PLAN, undoes=None, notes=(), moves=())):
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_the_inverse_undoes_the_last_move_first() -> None:
    assert PLAN.to_json()["inverse"] == [
        {"vhost": "v\udcff", "queue": "b", "queue_id": 2, "from": 0, "to": 1},
        {"vhost": "/", "queue": "a", "queue_id": 1, "from": 1, "to": 0},
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "not a plan: it has no moves"),
        ({"format": FORMAT}, "not a plan: it has no moves"),
        ({"format": FORMAT, "moves": {}}, "not a plan: it has no moves"),
        ({"format": 2, "moves": []}, "the plan is of format 2, this penstock knows 1"),
        ({"moves": []}, "the plan is of format None, this penstock knows 1"),
        ({"format": FORMAT, "moves": []}, "not a plan: KeyError at 'id'"),
        (PLAN.to_json() | {"moves": [{}]}, "not a plan: KeyError at 'vhost'"),
        (PLAN.to_json() | {"moves": [7]}, "not a plan: TypeError at 'int' object is not subscriptable"),
        (PLAN.to_json() | {"made": "now"}, "not a plan: ValueError at could not convert string to float: 'now'"),
        (PLAN.to_json() | {"inputs": 5}, "not a plan: TypeError at 'int' object is not iterable"),
    ],
)
def test_a_value_that_is_no_plan_is_named(value: Any, text: str) -> None:
    with pytest.raises(PlanError) as refused:
        Plan.from_json(value)
    assert str(refused.value) == text


def test_queues_that_are_elsewhere_by_now_are_not_moved_back() -> None:
    moves = tuple(Move("/", name, id, 0, 1) for id, name in enumerate(("put", "back", "on", "gone", "new")))
    homes = [Home("/", "put", 0, 1), Home("/", "back", 1, 0), Home("/", "on", 2, 2), Home("/", "new", 99, 1)]
    back = undo_plan(replace(PLAN, moves=moves), world(*homes), now=NOW + 5, lasts=60)
    assert [(move.queue, move.source, move.target) for move in back.moves] == [("put", 1, 0)]
    assert back.notes == (
        "queue 'new' in vhost '/' is gone",
        "queue 'gone' in vhost '/' is gone",
        "queue 'on' in vhost '/' has moved on to shard 2",
    )
    assert (back.undoes, back.placement_version, back.made, back.expires) == (PLAN.id, 9, NOW + 5, NOW + 65)
    assert (back.before, back.after) == (PLAN.after, PLAN.before)


def test_two_moves_of_a_queue_are_undone_one_after_the_other() -> None:
    moves = Move("/", "q", 1, 0, 1), Move("/", "q", 1, 1, 2)
    back = undo_plan(replace(PLAN, moves=moves), world(Home("/", "q", 1, 2)), now=NOW, lasts=60)
    assert [(move.source, move.target) for move in back.moves] == [(2, 1), (1, 0)]
    assert back.notes == ()


@pytest.mark.long
@unhurried
@given(worlds())
def test_inverse_moves_restore_the_placement(case: tuple[list[QueueRow], World, Rules]) -> None:
    plan = made_or_none(case)
    assume(plan is not None and plan.moves)
    assert plan is not None
    after = moved(case[1], plan)
    back = undo_plan(plan, after, now=NOW, lasts=60)
    assert [move.where() for move in back.moves] == plan.to_json()["inverse"]
    assert moved(after, back).homes == case[1].homes
    assert (back.undoes, back.notes) == (plan.id, ())


def test_ids_sort_by_time_and_tell_plans_of_one_moment_apart() -> None:
    first, same, later = (identity(at, "inputs", 7, MOVES) for at in (NOW, NOW, NOW + 1))
    assert first == same
    assert first.startswith("20270115-080000-")
    assert first < later
    others = {identity(NOW, "others", 7, MOVES), identity(NOW, "inputs", 8, MOVES), identity(NOW, "inputs", 7, ())}
    assert len(others | {first}) == 4
