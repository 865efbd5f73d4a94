"""The verdict on a window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ops.balancer.verdict import Verdict, judge, settled, unsettled
from ops.rebalance.goals import Rules, Shard
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow
from tests.ops.rebalance.synthetic import RULES, row, world


def loads(*rates: float) -> list[QueueRow]:
    """Return a queue of each rate, each on a shard of its own."""
    return [row(f"q{shard}", shard, rate) for shard, rate in enumerate(rates)]


def verdict(rows: list[QueueRow], percent: int = 125, at: World | None = None, rules: Rules = RULES) -> Verdict:
    return judge(rows, at or world(rows, 3), rules, percent).verdict


def test_the_largest_shard_decides() -> None:
    assert verdict(loads(100, 100, 100)) is Verdict.EVEN
    assert verdict(loads(124, 100, 76)) is Verdict.EVEN
    assert verdict(loads(130, 100, 70)) is Verdict.UNEVEN
    assert verdict(loads(130, 100, 70), percent=140) is Verdict.EVEN
    assert judge(loads(70, 130, 100), world(loads(70, 130, 100), 3), RULES, 125).why == (
        "shard 1 has 130 % of the mean (load)"
    )


def test_a_goal_with_a_higher_limit_has_that_limit() -> None:
    queues = [row(f"q{number}", shard, 1.0) for number in range(300) for shard in [min(number // 180, 1)]]
    assert verdict(queues, at=world(queues, 2), rules=replace(RULES, goals=("queues",))) is Verdict.EVEN, "120 %"
    queues = [row(f"q{number}", 0 if number < 280 else 1 + number % 2, 1.0) for number in range(300)]
    assert verdict(queues, rules=replace(RULES, goals=("queues",))) is Verdict.UNEVEN, "280 %, more than 200 %"


def test_only_the_goals_chosen_count() -> None:
    rows = loads(200, 50, 50)
    assert verdict(rows, rules=replace(RULES, goals=("held",))) is Verdict.EVEN


@pytest.mark.parametrize(
    ("at", "rules", "why"),
    [
        (world(loads(9, 1, 1), 3), RULES, "no shard does more than 10 messages a second"),
        (world(loads(900, 1, 1), [Shard(0), Shard(1, alive=False), Shard(2)]), RULES, "shard 1 is down"),
        (replace(world(loads(900, 1, 1), 3), closed=frozenset({2})), RULES, "shard 2 takes no queues"),
        (world([row("q0", 0, 900.0)], 1), RULES, "there is one shard only"),
    ],
)
def test_nothing_is_said_of_little_load_or_of_shards_that_come_and_go(at: World, rules: Rules, why: str) -> None:
    rate = 9.0 if "messages" in why else 900.0
    rows = [row(home.queue, home.shard, rate if not home.shard else 1.0) for home in at.homes]
    judged = judge(rows, at, rules, 125)
    assert (judged.verdict, judged.why) == (Verdict.SILENT, why)


def test_nothing_is_said_of_too_few_samples() -> None:
    rows = [replace(each, coverage=0.5) for each in loads(900, 1, 1)]
    assert verdict(rows) is Verdict.SILENT
    assert unsettled(world(rows, 3)) == ""


def test_an_automatic_plan_has_the_lower_limit_of_moves() -> None:
    rules = settled(Rules(moves_max=7), 5, 100, frozenset({("/", "q")}))
    assert (rules.moves_max, rules.bytes_max, rules.resting) == (5, 100, {("/", "q")})
    assert settled(Rules(moves_max=3), 5, None, frozenset()).moves_max == 3
