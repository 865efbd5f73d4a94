"""Judges a window: whether the load of the shards was uneven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from ops.rebalance.goals import Rules, soft_goals
from ops.rebalance.making import balance_of, coverage_of, is_quiet
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow


class Verdict(Enum):
    """The verdict on a window."""

    UNEVEN = "a shard has too much"
    EVEN = "no shard has too much"
    SILENT = "nothing can be said: too little load, too little known, or shards come or go"


class Judged(NamedTuple):
    """A verdict with its reason."""

    verdict: Verdict
    why: str


def judge(rows: Sequence[QueueRow], world: World, rules: Rules, imbalance_percent: int) -> Judged:
    """Judge a window. A goal is broken if a shard has more than its limit, and than this percentage of the mean."""
    if why := unsettled(world):
        return Judged(Verdict.SILENT, why)
    by_key = {row.key: row for row in rows}
    coverage = coverage_of(by_key, world.homes)
    if world.homes and coverage < rules.min_coverage:
        return Judged(Verdict.SILENT, f"only {coverage:.0%} of the samples are there")
    balance = balance_of(by_key, world, rules)
    if is_quiet(balance, rules):
        return Judged(Verdict.SILENT, f"no shard does more than {rules.low_rate:g} messages a second")
    for goal in soft_goals(rules.low_rate, rules.goals):
        sums = balance.sums[goal.name]
        most = max(balance.staying, key=lambda index: (sums[index], -index))
        if sums[most] > balance.line(goal, max(goal.limit, imbalance_percent)):
            ratio = balance.score(goal.name)["max_over_mean"]
            return Judged(Verdict.UNEVEN, f"shard {most} has {100 * ratio:.0f} % of the mean ({goal.name})")
    return Judged(Verdict.EVEN, "")


def unsettled(world: World) -> str:
    """Return why no plan should be made for the present shards; "" if one may be."""
    dead = [shard.index for shard in world.shards if not shard.alive]
    if dead:
        return f"shard {dead[0]} is down"
    if world.closed:
        return f"shard {min(world.closed)} takes no queues"
    if len(world.shards) < 2:
        return "there is one shard only"
    return ""


def settled(rules: Rules, moves: int, nbytes: int | None, resting: frozenset[tuple[str, str]]) -> Rules:
    """Return the rules of an automatic plan: of so many moves and bytes, without the queues that rest."""
    return replace(rules, moves_max=min(rules.moves_max, moves), bytes_max=nbytes, resting=resting)
