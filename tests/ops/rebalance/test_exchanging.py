"""Improvements of a plan: shorter or less to copy, as even, and within the hard goals."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from ops.rebalance.balance import Balance, items_of
from ops.rebalance.exchanging import improve
from ops.rebalance.goals import GOALS, Rules, Shard, soft_goals
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow
from ops.rebalance.steps import Step
from tests.ops.rebalance.synthetic import RULES, row, unhurried, world, worlds

SOFT = soft_goals(RULES.low_rate)


def balance_of(rows: list[QueueRow], at: World, rules: Rules = RULES) -> Balance:
    return Balance(items_of(at.homes, {each.key: each for each in rows}, at.shards, {}), at.shards, rules)


def improved(rows: list[QueueRow], steps: list[Step], shards: int | list[Shard]) -> list[Step]:
    balance = balance_of(rows, world(rows, shards))
    found = improve(balance, steps, SOFT)
    assert [balance.placed[step.number] for step in found] == [step.target for step in found]
    return found


def test_a_queue_is_exchanged_for_one_that_is_less_to_copy() -> None:
    rows = [row("deep", 0, 100.0, backlog=5000), row("flat", 0, 100.0), row("kept", 0, 100.0), row("there", 1, 10.0)]
    (step,) = improved(rows, [Step(0, 0, 1, "load")], 2)
    assert (step.number, step.source, step.target) == (1, 0, 1)


def test_not_for_one_that_relieves_its_shard_less() -> None:
    rows = [row("deep", 0, 100.0, backlog=50), row("flat", 0, 60.0), row("kept", 0, 99.0, backlog=90), row("z", 1, 9.0)]
    steps = [Step(0, 0, 1, "load")]
    assert improved(rows, steps, 2) == steps


def test_the_other_one_may_go_where_there_is_more_room() -> None:
    rows = [row("deep", 0, 40.0, backlog=50), row("flat", 0, 60.0), row("kept", 0, 60.0, backlog=90), row("y", 1, 25.0),
            row("z", 2, 5.0)]  # fmt: skip
    (step,) = improved(rows, [Step(0, 0, 1, "load")], 3)
    assert (step.number, step.target) == (1, 2)


def test_a_move_that_is_not_needed_is_left_out() -> None:
    rows = [row(f"a{number}", 0, 10.0) for number in range(10)] + [row(f"b{number}", 1, 10.0) for number in range(10)]
    assert improved(rows, [Step(0, 0, 1, "load")], 2) == []


def test_what_leaves_a_shard_to_be_emptied_leaves_it_in_any_case() -> None:
    rows = [row("a", 0, 1.0, backlog=9), row("b", 0, 1.0), row("c", 1, 1.0)]
    steps = [Step(0, 0, 1, None)]
    assert improved(rows, steps, 2) == steps


def test_memory_of_the_other_shard_is_respected() -> None:
    rows = [row("deep", 0, 100.0, backlog=10), row("flat", 0, 100.0, backlog=5), row("there", 1, 10.0)]
    shards = [Shard(0), Shard(1, memory=0, memory_limit=1)]
    balance = balance_of(rows, world(rows, shards))
    assert balance.obstacle(1, 1)
    assert improve(balance, [Step(0, 0, 1, "load")], SOFT) == [Step(0, 0, 1, "load")]


@unhurried
@given(worlds(), st.data())
def test_it_is_never_worse(case: tuple[list[QueueRow], World, Rules], data: st.DataObject) -> None:
    rows, at, rules = case
    before = balance_of(rows, at, rules)
    goals = soft_goals(rules.low_rate)
    steps = []
    numbers = st.lists(st.integers(0, max(len(rows) - 1, 0)), unique=True, max_size=8)
    for number in data.draw(numbers) if rows else []:
        targets = [index for index in before.staying if not before.obstacle(number, index)]
        source = before.placed[number]
        if source in before.shards and (others := [index for index in targets if index != source]):
            target = data.draw(st.sampled_from(others))
            goal = "load" if source in before.staying else None
            if not any(before.hurts(each, number, target) for each in goals):
                steps.append(Step(number, source, target, goal))
                before.move(number, target)
    assume(steps)
    after = balance_of(rows, at, rules)
    found = improve(after, steps, goals)
    copied = [sum(after.items[step.number].copied for step in each) for each in (found, steps)]
    assert len(found) <= len(steps) and copied[0] <= copied[1]
    assert len({step.number for step in found}) == len(found)
    again = balance_of(rows, at, rules)
    for step in found:
        assert not again.obstacle(step.number, step.target)
        again.move(step.number, step.target)
    assert again.placed == after.placed and again.sums == after.sums
    for goal in goals:
        line = after.line(goal, goal.aim)
        for index in after.staying:
            assert after.sums[goal.name][index] <= max(line, before.sums[goal.name][index]), (goal.name, GOALS)
