"""Shards with their queues: the sums that a move changes, and the hard goals that it may not break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ops.rebalance.goals import GOALS, PERCENT, RATE_UNIT, SHARE_UNIT, Goal, Home, Rules, Shard
from ops.rebalance.rows import QueueRow
from penstock.settings.values import GoalName

CPU_UNIT = 1_000_000
"""CPU use is counted in millionths of a core."""


@dataclass(frozen=True, slots=True)
class Item:
    """A queue as the planner sees it: its part in the sums of its shard. `fixed` is the reason why it may not move."""

    home: Home
    row: QueueRow
    weights: Mapping[GoalName, int]
    cpu: int
    fixed: str

    @property
    def copied(self) -> int:
        """The cost of copying it, in messages or KiB, whichever is more."""
        return max(self.row.backlog, self.row.backlog_bytes // 1024)


def items_of(homes: Sequence[Home], rows: Mapping[tuple[str, str], QueueRow], shards: Sequence[Shard],
             fixed: Mapping[tuple[str, str], str]) -> list[Item]:  # fmt: skip
    """Return the queues in order of vhost and name. A queue without a row counts as one queue without load."""
    known = sorted(homes, key=lambda home: home.key)
    whole = {shard.index: 0.0 for shard in shards}
    cpu = {shard.index: shard.cpu or 0.0 for shard in shards}
    for home in known:
        if home.key in rows and home.shard in whole:
            whole[home.shard] += rows[home.key].p95_rate
    made = []
    for home in known:
        row = rows.get(home.key) or _blank(home)
        share = row.p95_rate / whole[home.shard] if whole.get(home.shard) else 0.0
        weights: dict[GoalName, int] = {
            "load": round(row.p95_rate * RATE_UNIT),
            "held": round(row.stopped_share * SHARE_UNIT),
            "bytes": round(row.p95_bytes_rate),
            "queues": 1,
        }
        used = round(share * cpu.get(home.shard, 0.0) * CPU_UNIT)
        made.append(Item(home, row, weights, used, fixed.get(home.key, "")))
    return made


def _blank(home: Home) -> QueueRow:
    return QueueRow(home.vhost, home.queue, home.shard, 0.0, 0.0, 0.0, 0, 0, 0.0, 0, 0, 0.0)


class Balance:
    """A placement of the items, changed move by move. Only live shards count in means and scores."""

    def __init__(self, items: Sequence[Item], shards: Sequence[Shard], rules: Rules) -> None:
        self.items = items
        self.rules = rules
        self.shards = {shard.index: shard for shard in sorted(shards, key=lambda shard: shard.index) if shard.alive}
        self.sums: dict[GoalName, dict[int, int]] = {goal: dict.fromkeys(self.shards, 0) for goal in GOALS}
        self.cpu = {index: round((shard.cpu or 0.0) * CPU_UNIT) for index, shard in self.shards.items()}
        self.memory = {index: shard.memory or 0 for index, shard in self.shards.items()}
        self.store = {index: shard.store or 0 for index, shard in self.shards.items()}
        self.members: dict[int, dict[int, None]] = {index: {} for index in self.shards}
        self.placed: dict[int, int] = {}
        for number, item in enumerate(items):
            shard = item.home.shard
            self.placed[number] = shard
            if shard in self.shards:
                self.members[shard][number] = None
                for goal in GOALS:
                    self.sums[goal][shard] += item.weights[goal]
        # A shard to be emptied does not count in the mean.
        self.staying = [index for index in self.shards if index not in rules.leaving]
        self.totals = {goal: sum(self.sums[goal].values()) for goal in GOALS}

    def move(self, number: int, target: int) -> None:
        """Move an item to a shard."""
        item, source = self.items[number], self.placed[number]
        for goal in GOALS:
            self.sums[goal][source] -= item.weights[goal]
            self.sums[goal][target] += item.weights[goal]
        for sums, amount in (
            (self.cpu, item.cpu),
            (self.memory, item.row.peak_bytes),
            (self.store, item.row.peak_bytes),
        ):
            sums[source] -= amount
            sums[target] += amount
        del self.members[source][number]
        self.members[target][number] = None
        self.placed[number] = target

    def obstacle(self, number: int, target: int) -> str:
        """Return the hard goal that a move would break; "" if none."""
        item, shard, rules = self.items[number], self.shards.get(target), self.rules
        if item.fixed:
            return item.fixed
        if shard is None or self.placed[number] not in self.shards:
            return "shard is down"
        if target in rules.excluded or target in rules.leaving:
            return "shard takes no queues"
        if rules.queues_max is not None and self.sums["queues"][target] + 1 > rules.queues_max:
            return "shard has as many queues as it may have"
        if shard.cpu is not None and self.cpu[target] + item.cpu > rules.cpu_percent * CPU_UNIT // PERCENT:
            return "CPU of the shard"
        nbytes = item.row.peak_bytes
        if _over(self.memory[target] + nbytes, shard.memory_limit, rules.memory_percent):
            return "memory of the shard"
        if _over(self.store[target] + nbytes, shard.store_limit, rules.store_percent):
            return "store of the shard"
        return ""

    def line(self, goal: Goal, percent: int) -> int:
        """Return the most that a shard may have: a percentage of the mean, or the goal's floor if that is more."""
        return max(self.totals[goal.name] * percent // (PERCENT * max(len(self.staying), 1)), goal.floor)

    def hurts(self, goal: Goal, number: int, target: int) -> bool:
        """Whether a move makes a goal worse: it lifts the target beyond the aim, and above the source's sum."""
        sums = self.sums[goal.name]
        lifted = sums[target] + self.items[number].weights[goal.name]
        return lifted > self.line(goal, goal.aim) and lifted > sums[self.placed[number]]

    def score(self, goal: GoalName) -> dict[str, Any]:
        """Return the largest sum of a shard over the mean, and the sums of all shards in their units."""
        unit = {"load": RATE_UNIT, "held": SHARE_UNIT}.get(goal, 1)
        mean = self.totals[goal] / max(len(self.staying), 1)
        largest = max(self.sums[goal].values(), default=0)
        shards = {str(index): round(value / unit, 3) for index, value in self.sums[goal].items()}
        return {"max_over_mean": round(largest / mean, 4) if mean else 1.0, "shards": shards}


def _over(amount: int, limit: int | None, percent: int) -> bool:
    return limit is not None and amount > limit * percent // PERCENT
