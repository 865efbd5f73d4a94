"""The choice of moves: few, for one goal after the other, and only one for each queue."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ops.rebalance.balance import Balance, items_of
from ops.rebalance.costs import OWN_WORK, work
from ops.rebalance.goals import GOALS, Rules, Shard, soft_goals
from ops.rebalance.plan import World
from ops.rebalance.planner import CEILINGS, best_steps, join_moves
from ops.rebalance.rows import QueueRow
from ops.rebalance.steps import Step
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


def test_of_queues_that_help_as_much_the_one_that_copies_least_is_moved() -> None:
    assert CEILINGS[:2] == (0, 100)
    rows = [row("full", 0, 100.0, backlog=90_000), row("some", 0, 100.0, backlog=50), row("other", 1, 10.0)]
    items = balance_of(rows, 2).items
    assert [items[step.number].home.queue for step in steps_for(rows, 2)] == ["some"]


@pytest.mark.parametrize(("backlog", "moves"), [(2000, 4), (500_000, 40)])
def test_many_small_moves_are_better_than_a_few_that_take_longer(backlog: int, moves: int) -> None:
    """By the guesses each move takes 10 ms, and 250 messages take 1 ms."""
    rows = [row(f"small{n:03}", 0, 10.0) for n in range(100)]
    rows += [row(f"large{n}", 0, 100.0, backlog=backlog) for n in range(5)]
    rows += [row(f"there{n}", 1, 10.0) for n in range(60)]
    assert len(steps_for(rows, 2)) == moves


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


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 100, *(pytest.param(n, marks=pytest.mark.slow) for n in range(200, 1000, 100))])
def test_no_plain_greedy_plan_is_better(first: int) -> None:
    """Neither has fewer moves without more to copy, nor less to copy without more moves; both together it never
    undercuts, and the work is never less.
    """
    for seed in range(first, first + 100):
        rows, shards = random_rows(seed)
        steps = steps_for(rows, shards)
        items = balance_of(rows, shards).items
        copied = sum(items[step.number].row.backlog for step in steps)
        for empty_only in (False, True):
            moves, backlog, relieved = greedy(rows, shards, empty_only)
            if not relieved:
                continue
            assert (len(steps), copied) == (moves, backlog) or len(steps) < moves or copied < backlog, seed
            assert effort(len(steps), copied) <= effort(moves, backlog), seed


def effort(moves: int, messages: int) -> int:
    """Return the work of moves and copies; messages have 100 bytes each."""
    return (moves - 1) * OWN_WORK + work(messages, 100 * messages)


def random_rows(seed: int) -> tuple[list[QueueRow], int]:
    """Return queues on shards of which one or two are hot."""
    chance = random.Random(seed)
    shards, queues = chance.randint(2, 8), chance.randint(10, 150)
    hot = set(chance.sample(range(shards), chance.choice([1, 1, 2]) if shards > 2 else 1))
    factor, empty = chance.uniform(1.5, 4), chance.uniform(0, 0.9)
    rows = []
    for number in range(queues):
        shard = chance.randrange(shards)
        rate = min(chance.paretovariate(1.2) * 20, 3000) * (factor if shard in hot else 1)
        backlog = 0 if chance.random() < empty else min(int(chance.paretovariate(0.5) * 10), 200_000)
        rows.append(row(f"q{number:03}", shard, rate, backlog, p95_bytes_rate=0.0))
    return rows, shards


def greedy(rows: Sequence[QueueRow], shards: int, empty_only: bool) -> tuple[int, int, bool]:
    """Move the queue that reduces the largest excess most, until no shard is above the aim; return the number of moves,
    the messages copied, and whether no shard is.
    """
    home = {each.queue: each.shard for each in rows}
    load = [sum(each.p95_rate for each in rows if each.shard == shard) for shard in range(shards)]
    mean = sum(load) / shards
    aim = max(mean * 1.05, RULES.low_rate)
    if max(load) <= max(mean * 1.1, RULES.low_rate):
        return 0, 0, True
    moves = copied = 0
    while max(load) > aim and moves < 100:
        source = max(range(shards), key=lambda shard: load[shard])
        best: tuple[float, QueueRow, int] | None = None
        for each in rows:
            if home[each.queue] != source or (empty_only and each.backlog):
                continue
            for target in range(shards):
                excess = max(load[target] + each.p95_rate - aim, 0) - max(load[target] - aim, 0)
                gain = min(each.p95_rate, load[source] - aim) - excess
                if target != source and gain > 0 and (best is None or gain > best[0]):
                    best = gain, each, target
        if best is None:
            return moves, copied, False
        _, each, target = best
        load[source] -= each.p95_rate
        load[target] += each.p95_rate
        home[each.queue] = target
        moves += 1
        copied += each.backlog
    return moves, copied, max(load) <= aim
