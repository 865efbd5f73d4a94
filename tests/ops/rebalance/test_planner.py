"""The choice of moves: few, for one goal after the other, and only one for each queue."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ops.rebalance.balance import GOALS, Balance, items_of
from ops.rebalance.goals import Rules, Shard, soft_goals
from ops.rebalance.plan import World
from ops.rebalance.planner import CEILINGS, FEW_MOVES, Step, best_steps, join_moves
from ops.rebalance.rows import QueueRow
from tests.ops.rebalance.synthetic import RULES, load, made_or_none, plan_for, row, unhurried, world, worlds


def balance_of(rows: Sequence[QueueRow], shards: Sequence[Shard] | int, rules: Rules = RULES) -> Balance:
    at = world(rows, shards)
    return Balance(items_of(at.homes, {each.key: each for each in rows}, at.shards, {}), at.shards, rules)


def steps_for(rows: Sequence[QueueRow], shards: int, rules: Rules = RULES) -> list[Step]:
    return best_steps(lambda: balance_of(rows, shards, rules), soft_goals(rules.low_rate))


def test_an_even_placement_needs_no_step() -> None:
    assert steps_for([row(f"q{n}", n % 3, 100.0) for n in range(9)], 3) == []


def test_a_shard_within_the_limit_is_left_alone_and_one_beyond_it_relieved_down_to_the_aim() -> None:
    """The limit is 110 % of the mean, the aim 105 %."""
    within = [row(f"a{n}", 0, 1.0) for n in range(109)] + [row(f"b{n}", 1, 1.0) for n in range(91)]
    assert steps_for(within, 2) == []
    beyond = [row(f"a{n:03}", 0, 1.0) for n in range(111)] + [row(f"b{n}", 1, 1.0) for n in range(89)]
    steps = steps_for(beyond, 2)
    assert {(step.source, step.target, step.goal) for step in steps} == {(0, 1, "load")}
    assert len(steps) == 6


def test_a_queue_that_copies_less_is_preferred_as_long_as_moves_are_few() -> None:
    """Of two suitable queues, the one whose size is within the lower ceiling is moved."""
    assert CEILINGS[:2] == (0, 100)
    rows = [row("full", 0, 100.0, backlog=90_000), row("some", 0, 100.0, backlog=50), row("other", 1, 10.0)]
    items = balance_of(rows, 2).items
    assert [items[step.number].home.queue for step in steps_for(rows, 2)] == ["some"]


def test_beyond_a_few_moves_fewer_of_them_are_better_than_less_to_copy() -> None:
    small = [row(f"small{n:03}", 0, 10.0) for n in range(100)]
    large = [row(f"large{n}", 0, 200.0, backlog=500_000) for n in range(5)]
    rows = [*small, *large]
    steps = steps_for(rows, 2)
    assert len(steps) <= FEW_MOVES
    items = balance_of(rows, 2).items
    assert any(items[step.number].row.backlog for step in steps)


def test_a_leaving_shard_is_emptied_largest_queue_first_to_the_least_load() -> None:
    rows = [row("big", 1, 50.0), row("small", 1, 5.0), row("x", 0, 20.0), row("y", 2, 10.0)]
    rules = replace(RULES, leaving=frozenset({1}))
    steps = best_steps(lambda: balance_of(rows, 3, rules), ())
    items = balance_of(rows, 3, rules).items
    assert [(items[step.number].home.queue, step.target, step.goal) for step in steps] == [
        ("big", 2, None),
        ("small", 0, None),
    ]


def test_several_moves_of_a_queue_become_one() -> None:
    rows = [row("a", 0, 1.0), row("b", 1, 1.0), row("c", 2, 1.0)]
    steps = [Step(0, 0, 1, "load"), Step(1, 1, 2, "load"), Step(0, 1, 2, "load"), Step(1, 2, 1, "load")]
    balance = balance_of(rows, 3)
    assert join_moves(balance, steps, soft_goals(0.0)) == [Step(0, 0, 2, "load")]
    assert balance.placed == {0: 2, 1: 1, 2: 2}


def test_moves_stay_apart_where_the_joined_one_would_break_a_hard_goal() -> None:
    """At the first move of queue a shard 2 is full; queue b leaves it before the second."""
    rows = [row("a", 0, 1.0, backlog=1), row("b", 2, 1.0, backlog=1)]
    shards = [Shard(0), Shard(1), Shard(2, memory=100, memory_limit=125)]
    steps = [Step(0, 0, 1, "load"), Step(1, 2, 0, "load"), Step(0, 1, 2, "load")]
    balance = balance_of(rows, shards)
    assert join_moves(balance, steps, soft_goals(0.0)) == steps
    assert balance.placed == {0: 2, 1: 0}


@given(st.data())
def test_joined_moves_lead_to_the_same_placement(data: st.DataObject) -> None:
    rows = [row(f"q{n}", n % 3, 1.0) for n in range(4)]
    walked = balance_of(rows, 3)
    steps = []
    for _ in range(data.draw(st.integers(0, 8))):
        number = data.draw(st.integers(0, 3))
        source = walked.placed[number]
        target = data.draw(st.sampled_from([shard for shard in range(3) if shard != source]))
        steps.append(Step(number, source, target, "queues"))
        walked.move(number, target)
    joined = balance_of(rows, 3)
    shorter = join_moves(joined, steps, ())
    assert joined.placed == walked.placed
    assert joined.sums == walked.sums
    moved = [step.number for step in shorter]
    assert len(moved) == len(set(moved)), "nothing stands against one move for each"


@pytest.mark.long
@unhurried
@given(worlds())
def test_a_later_goal_hurts_no_earlier_one(case: tuple[list[QueueRow], World, Rules]) -> None:
    """No step made for one goal lifts a shard beyond the aim of an earlier one and above the shard it relieves."""
    rows, at, rules = case
    plan = made_or_none(case)
    assume(plan is not None)
    assert plan is not None
    goals = soft_goals(rules.low_rate)
    items = items_of(at.homes, {each.key: each for each in rows}, at.shards, {})
    numbers = {item.home.key: number for number, item in enumerate(items)}
    balance = Balance(items, at.shards, rules)
    for move in plan.moves:
        earlier = itertools.takewhile(lambda goal, move=move: goal.name != move.goal, goals)
        if move.goal in GOALS:
            assert not any(balance.hurts(goal, numbers[move.key], move.target) for goal in earlier)
        balance.move(numbers[move.key], move.target)


def test_stopped_queues_are_spread_where_the_load_allows() -> None:
    rows = [row(f"s{n}", 0, 50.0, stopped_share=0.5) for n in range(6)]
    rows += [row(f"o{n}", n % 3, 1000.0) for n in range(18)]
    plan = plan_for(rows, world(rows, 3))
    assert plan.after["held"]["max_over_mean"] < plan.before["held"]["max_over_mean"]
    assert load(plan) <= 1.10


def test_an_indivisible_queue_keeps_its_shard_for_itself() -> None:
    rows = [row("giant", 0, 50_000.0), row("a", 0, 3000.0), row("b", 0, 2000.0), row("c", 1, 5000.0)]
    plan = plan_for(rows, world(rows, 2))
    assert {move.queue for move in plan.moves} == {"a", "b"}


def test_queues_with_little_in_them_go_first() -> None:
    rows = [row(f"full{n}", 0, 1000.0, backlog=10_000) for n in range(10)]
    rows += [row(f"empty{n}", 0, 1000.0) for n in range(10)] + [row("other", 1, 10.0)]
    plan = plan_for(rows, world(rows, 2))
    assert len(plan.moves) == 10
    assert all(move.queue.startswith("empty") for move in plan.moves)
