"""Makes a plan from the load of the queues, the use of the shards, and the rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

from ops.rebalance.balance import Balance, Item, items_of
from ops.rebalance.costs import PAUSE_MS
from ops.rebalance.goals import GOALS, RATE_UNIT, Home, Rules, soft_goals
from ops.rebalance.plan import Move, Plan, PlanError, World, identity
from ops.rebalance.planner import best_steps
from ops.rebalance.rows import QueueRow, digest
from ops.rebalance.steps import Step

NOTED_MAX = 5
"""Queues that a note names, at most."""
LOW_CPU = 0.5
"""CPU use in cores up to which a shard with few messages is left alone."""


def make_plan(
    rows: Sequence[QueueRow],
    world: World,
    rules: Rules,
    *,
    source: str,
    now: float,
    lasts: float,
    even: bool = True,
    pause_ms: float = PAUSE_MS,
) -> Plan:
    """Return the plan for these rows. PlanError if too little is known to make one.

    `source` describes the origin of the rows, `lasts` is for how many seconds the plan may be applied. Without `even`
    it only empties the shards to be emptied. `pause_ms` is the expected pause of a move.
    """
    by_key = {row.key: row for row in rows}
    coverage = coverage_of(by_key, world.homes)
    if world.homes and coverage < rules.min_coverage:
        raise PlanError(_thin(coverage, rules, by_key, world.homes))
    goals = soft_goals(rules.low_rate, rules.goals) if even else ()
    balance = balance_of(by_key, world, rules)
    items = balance.items
    if not balance.staying:
        raise PlanError("there is no shard that could take a queue")
    before: dict[str, Any] = {goal: balance.score(goal) for goal in GOALS}
    notes = _stuck(items)
    taken: list[Step] = []
    if is_quiet(balance, rules):
        notes.append(f"no shard does more than {rules.low_rate:g} messages a second: nothing is worth a move")
    else:
        taken = best_steps(lambda: Balance(items, world.shards, balance.rules), goals)
    within = _within(items, taken, rules.bytes_max)
    if len(within) < len(taken):
        notes.append(f"{len(taken) - len(within)} further moves would copy more than {rules.bytes_max} bytes in all")
    taken = within
    for step in taken:
        balance.move(step.number, step.target)
    if len(taken) >= rules.moves_max:
        notes.append(f"there are {rules.moves_max} moves, as many as a plan may have: plan again once it is applied")
    counted = digest(rows)
    moves = tuple(_of_step(items, step, pause_ms) for step in taken)
    return Plan(
        identity(now, counted, world.placement_version, moves),
        now,
        now + lasts,
        world.placement_version,
        {"source": source, "digest": counted, "queues": len(world.homes), "coverage": round(coverage, 4)},
        before,
        {goal: balance.score(goal) for goal in GOALS},
        moves,
        tuple(notes),
    )


def balance_of(rows: Mapping[tuple[str, str], QueueRow], world: World, rules: Rules) -> Balance:
    """Return the present placement. Closed shards are to be emptied, whatever the rules say."""
    rules = replace(rules, leaving=rules.leaving | world.closed)
    return Balance(items_of(world.homes, rows, world.shards, fixed_queues(world, rows, rules)), world.shards, rules)


def pinned(home: Home, rules: Rules) -> bool:
    """Whether a queue is pinned to its shard by the rules."""
    return any(fnmatchcase(f"{home.vhost}/{home.queue}", pattern) for pattern in rules.pins)


def coverage_of(rows: Mapping[tuple[str, str], QueueRow], homes: Sequence[Home]) -> float:
    """Return the mean coverage of the movable queues; a queue without a row has none."""
    counted = [home for home in homes if not home.immovable]
    covered = math.fsum(rows[home.key].coverage for home in counted if home.key in rows)
    return covered / len(counted) if counted else 1.0


def _thin(coverage: float, rules: Rules, rows: Mapping[tuple[str, str], QueueRow], homes: Sequence[Home]) -> str:
    unknown = [home for home in homes if not home.immovable and home.key not in rows]
    return (
        f"too little is known to plan: {coverage:.0%} of the samples of {len(homes)} queues are there, "
        f"{rules.min_coverage:.0%} are needed; {len(unknown)} queues have none"
        + (f" ({_named(home.queue for home in unknown)})" if unknown else "")
    )


def fixed_queues(world: World, rows: Mapping[tuple[str, str], QueueRow], rules: Rules) -> dict[tuple[str, str], str]:
    """Return the queues that may not move, with the reason for each."""
    alive = {shard.index for shard in world.shards if shard.alive}
    found: dict[tuple[str, str], str] = {}
    for home in world.homes:
        if home.immovable:
            found[home.key] = home.immovable
        elif pinned(home, rules):
            found[home.key] = "pinned"
        elif home.shard not in alive:
            found[home.key] = "on a shard that is down"
        elif home.key not in rows or rows[home.key].coverage < rules.min_coverage:
            found[home.key] = "too little known"
        elif home.key in rules.resting:
            found[home.key] = "moved lately"
        elif rules.bytes_max is not None and rows[home.key].backlog_bytes > rules.bytes_max:
            found[home.key] = "more to copy than a plan may"
    return found


def _within(items: Sequence[Item], steps: list[Step], nbytes: int | None) -> list[Step]:
    """Return the first steps, as far as they copy no more than `nbytes` in all: each holds without those after it."""
    if nbytes is None:
        return steps
    copied = accumulate(items[step.number].row.backlog_bytes for step in steps)
    return [step for step, so_far in zip(steps, copied, strict=True) if so_far <= nbytes]


def _stuck(items: Sequence[Item]) -> list[str]:
    """Return the notes on queues that may not move."""
    reasons: dict[str, list[str]] = {}
    for item in items:
        if item.fixed:
            reasons.setdefault(item.fixed, []).append(item.home.queue)
    return [f"not moved, {why}: {_named(names)}" for why, names in sorted(reasons.items())]


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NOTED_MAX} more" if len(listed) > NOTED_MAX else ""
    return ", ".join(listed[:NOTED_MAX]) + more


def is_quiet(balance: Balance, rules: Rules) -> bool:
    """Whether the load of every shard is too low for a move to be of use."""
    if balance.rules.leaving & balance.shards.keys():
        return False
    low = round(rules.low_rate * RATE_UNIT)
    busy = [shard for shard in balance.shards.values() if shard.cpu is not None and shard.cpu > LOW_CPU]
    return not busy and all(load <= low for load in balance.sums["load"].values())


def _of_step(items: Sequence[Item], step: Step, pause_ms: float) -> Move:
    home, row = items[step.number].home, items[step.number].row
    found = home.vhost, home.queue, home.queue_id, step.source, step.target
    return Move(*found, step.goal or "leaving", row.backlog, row.backlog_bytes, round(row.p95_rate, 1), pause_ms)
