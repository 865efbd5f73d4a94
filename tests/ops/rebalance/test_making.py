"""Plans: their effect, the limits that they keep, and the same plan for the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given

from ops.rebalance.goals import Home, Rules, Shard
from ops.rebalance.making import pinned
from ops.rebalance.plan import PlanError, World
from ops.rebalance.rows import QueueRow
from tests.ops.rebalance.synthetic import (
    RULES,
    VHOST,
    load,
    made_or_none,
    moved,
    one_hot,
    plan_for,
    row,
    unhurried,
    world,
    worlds,
)

pytestmark = pytest.mark.long


def test_one_hot_shard_of_eight_is_relieved_by_a_few_empty_queues() -> None:
    rows = [replace(each, backlog=0, backlog_bytes=0) if each.p95_rate > 150 else each for each in one_hot(2)]
    plan = plan_for(rows, world(rows, 8))
    assert load(plan, "before") > 1.6
    assert load(plan) <= 1.06
    assert len(plan.moves) <= 20
    assert sum(move.messages for move in plan.moves) == 0


@pytest.mark.parametrize("seed", range(8))
def test_where_the_empty_ones_do_too_little_not_many_messages_are_copied(seed: int) -> None:
    rows = one_hot(seed)
    plan = plan_for(rows, world(rows, 8))
    assert load(plan) <= 1.06
    assert len(plan.moves) <= 30
    assert sum(move.messages for move in plan.moves) < 250 * len(plan.moves), "a move takes longer than such a copy"


@unhurried
@given(worlds())
def test_hard_goals_hold_after_every_step(case: tuple[list[QueueRow], World, Rules]) -> None:
    """The sums are computed anew from the rows after each step, not taken from the planner."""
    rows, start, rules = case
    plan = made_or_none(case)
    assume(plan is not None)
    assert plan is not None
    by_key = {each.key: each for each in rows}
    at = start
    for move in plan.moves:
        before, at = at, moved(at, [move])
        shard, home = start.shards[move.target], next(home for home in before.homes if home.key == move.key)
        there = [by_key[home.key] for home in at.homes if home.shard == move.target]
        came = [each for each in there if each.shard != move.target]
        left = [each for each in rows if each.shard == move.target and each not in there]
        assert shard.alive and start.shards[move.source].alive
        assert move.target not in rules.excluded | rules.leaving
        assert not home.immovable and not pinned(home, rules)
        assert by_key[move.key].coverage >= rules.min_coverage
        assert rules.queues_max is None or len(there) <= rules.queues_max
        nbytes = sum(each.peak_bytes for each in came) - sum(each.peak_bytes for each in left)
        for used, limit, percent in (
            (shard.memory, shard.memory_limit, rules.memory_percent),
            (shard.store, shard.store_limit, rules.store_percent),
        ):
            assert limit is None or (used or 0) + nbytes <= limit * percent // 100
        if shard.cpu is not None:
            used = shard.cpu + sum(cpu_of(each, rows, start) for each in came)
            used -= sum(cpu_of(each, rows, start) for each in left)
            assert used <= rules.cpu_percent / 100 + 1e-3


def cpu_of(each: QueueRow, rows: Sequence[QueueRow], at: World) -> float:
    whole = sum(other.p95_rate for other in rows if other.shard == each.shard)
    return each.p95_rate / whole * (at.shards[each.shard].cpu or 0.0) if whole else 0.0


@unhurried
@given(worlds())
def test_the_same_inputs_give_the_same_plan_whatever_their_order(case: tuple[list[QueueRow], World, Rules]) -> None:
    rows, at, rules = case
    plan = made_or_none(case)
    assume(plan is not None)
    turned = World(list(reversed(at.homes)), list(reversed(at.shards)), at.placement_version)
    assert plan_for(list(reversed(rows)), turned, rules) == plan


@unhurried
@given(worlds())
def test_a_second_plan_after_applying_is_empty(case: tuple[list[QueueRow], World, Rules]) -> None:
    rows, start, rules = case
    # A queue's need of CPU is estimated from its present shard; a second plan would have to estimate it anew.
    at = World(start.homes, [replace(shard, cpu=None, memory=None, store=None) for shard in start.shards], 1)
    at = World(at.homes, [replace(shard, memory_limit=None, store_limit=None) for shard in at.shards], 1)
    plan = made_or_none((rows, at, rules))
    assume(plan is not None and len(plan.moves) < rules.moves_max)
    assert plan is not None
    assert plan_for(rows, moved(at, plan), rules).moves == ()


@unhurried
@given(worlds())
def test_a_plan_never_makes_the_load_worse(case: tuple[list[QueueRow], World, Rules]) -> None:
    plan = made_or_none(case)
    assume(plan is not None and not case[2].leaving)
    assert plan is not None
    mean = sum(plan.before["load"]["shards"].values()) / max(len(plan.before["load"]["shards"]), 1)
    limit = max(1.1 * mean, case[2].low_rate)
    largest = {when: max(getattr(plan, when)["load"]["shards"].values(), default=0) for when in ("before", "after")}
    assert largest["after"] <= max(largest["before"], limit) + 0.01


def test_a_shard_that_is_leaving_is_emptied() -> None:
    rows = [row(f"q{n}", n % 3, 100.0, backlog=n) for n in range(30)]
    plan = plan_for(rows, world(rows, 3), replace(RULES, leaving=frozenset({1})))
    after = moved(world(rows, 3), plan)
    assert {home.shard for home in after.homes} == {0, 2}
    assert load(plan) <= 1.10


def test_nothing_is_moved_where_all_shards_have_little_to_do() -> None:
    rows = [row("a", 0, 400.0), row("b", 0, 400.0), row("c", 1, 10.0)]
    plan = plan_for(rows, world(rows, 2), Rules(low_rate=1000.0))
    assert plan.moves == ()
    assert plan.notes == ("no shard does more than 1000 messages a second: nothing is worth a move",)
    busy = plan_for(rows, world(rows, [Shard(0, cpu=0.9), Shard(1, cpu=0.1)]), Rules(low_rate=100.0, cpu_percent=95))
    assert [move.target for move in busy.moves] == [1]


def test_too_little_known_is_refused_with_how_much_and_of_which() -> None:
    rows = [row("a", 0, 4000.0), row("b", 0, 400.0)]
    at = world([*rows, row("new", 1), row("newer", 1)], 2)
    with pytest.raises(PlanError) as refused:
        plan_for(rows, at)
    assert str(refused.value) == (
        "too little is known to plan: 50% of the samples of 4 queues are there, 80% are needed; "
        "2 queues have none (new, newer)"
    )


def test_what_is_not_moved_is_said() -> None:
    rows = [row("pinned", 0, 4000.0), row("mine", 0, 400.0), row("thin", 0, 4000.0, coverage=0.5)]
    rows += [row(f"q{n}", 1, 10.0) for n in range(8)]
    at = world(rows, 2)
    homes = [replace(home, immovable="exclusive" if home.queue == "mine" else "") for home in at.homes]
    plan = plan_for(rows, World(homes, at.shards, 1), replace(RULES, pins=("*/pinned",)))
    assert plan.moves == ()
    assert plan.notes == (
        "not moved, exclusive: mine",
        "not moved, pinned: pinned",
        "not moved, too little known: thin",
    )


def test_no_queues_no_shards() -> None:
    assert plan_for([], world([], 2)).moves == ()
    with pytest.raises(PlanError, match="there is no shard"):
        plan_for([], world([], [Shard(0, alive=False)]))
    homes = [Home(VHOST, "q", 1, 0)]
    with pytest.raises(PlanError, match="0% of the samples of 1 queues"):
        plan_for([], World(homes, [Shard(0)], 1))


def test_as_many_moves_as_a_plan_may_have() -> None:
    rows = [row(f"q{n}", 0, 100.0) for n in range(100)] + [row("x", 1, 1.0)]
    plan = plan_for(rows, world(rows, 2), replace(RULES, moves_max=5))
    assert len(plan.moves) == 5
    assert "5 moves, as many as a plan may have" in plan.notes[-1]


def test_a_plan_copies_no_more_than_it_may_and_leaves_queues_that_rest() -> None:
    rows = [row(f"q{number}", 0, 1000.0, backlog=1) for number in range(8)]  # of 100 bytes each
    free = plan_for(rows, world(rows, 4), RULES)
    assert len(free.moves) == 6
    bound = plan_for(rows, world(rows, 4), replace(RULES, bytes_max=250))
    assert len(bound.moves) == 2
    assert any("further moves would copy more than 250 bytes in all" in note for note in bound.notes)
    assert load(free) < load(bound) < load(free, "before"), "its score is that of its own moves"
    large = plan_for(rows, world(rows, 4), replace(RULES, bytes_max=99))
    assert large.moves == () and any("more to copy than a plan may" in note for note in large.notes)
    resting = frozenset((VHOST, f"q{number}") for number in range(5))
    rested = plan_for(rows, world(rows, 4), replace(RULES, resting=resting))
    assert {move.queue for move in rested.moves} == {"q5", "q6", "q7"}


def test_a_plan_is_for_the_goals_that_are_chosen() -> None:
    rows = [row(f"q{number}", number % 2, 1000.0, p95_bytes_rate=1e8 * (number % 2)) for number in range(8)]
    assert plan_for(rows, world(rows, 2), replace(RULES, goals=("load",))).moves == ()
    assert plan_for(rows, world(rows, 2), replace(RULES, goals=("bytes",))).moves
