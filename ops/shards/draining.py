"""Drains a shard: plans that move its queues away are made and applied until no more queues can be moved."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ops.errors import CommandError
from ops.rebalance.applying import DONE, Ended, Limits
from ops.rebalance.goals import Home, Rules
from ops.rebalance.making import balance_of, make_plan
from ops.rebalance.node import RunningNode
from ops.rebalance.plan import Plan, World
from ops.rebalance.records import Records
from ops.rebalance.rows import QueueRow
from ops.rebalance.running import Run
from penstock.node import clock

WATCH_SECONDS = 1.0
"""How long queues are watched before each plan, which puts them where their rates fit best."""
STALE_MAX = 10
"""How often the placement may change under a plan before draining is given up."""

Key = tuple[str, str]
"""Vhost and name of a queue."""


class Drain:
    """The draining of one shard. `stuck` are the queues that could not be moved, with the reason."""

    def __init__(
        self,
        node: RunningNode,
        records: Records,
        shard: int,
        rules: Rules,
        limits: Limits,
        report: Callable[[str], None],
    ) -> None:
        self.node = node
        self.records = records
        self.shard = shard
        self.rules = replace(rules, min_coverage=0.0)
        self.limits = limits
        self.report = report
        self.moved = 0
        self.stuck: dict[Key, str] = {}

    def run(self) -> dict[Key, str]:
        """Move all queues that can be moved. Returns the remaining queues with the reason for each. CommandError if
        draining was ended before.
        """
        stale = rounds = 0
        while True:
            rows, world = self.node.watched(WATCH_SECONDS, lambda part: None)
            rounds += 1
            plan = self._plan(rows, world)
            if plan.moves:
                ended = self._apply(plan)
                stale += ended.state == "stale"
                if ended.state in ("aborted", "lease-lost", "expired") or stale > STALE_MAX:
                    raise CommandError(f"shard {self.shard} is not empty: {ended.state} {ended.reason}".rstrip())
            elif rounds > 1:  # in the first round a queue may be too new to be known
                return reasons(rows, world, self.shard, self.rules, self.stuck)

    def _plan(self, rows: list[QueueRow], world: World) -> Plan:
        lasts = self.node.settings.rebalance.plan_seconds
        return leaving_plan(rows, world, self.shard, self.rules, self.stuck.keys(), now=clock.now(), lasts=lasts)

    def _apply(self, plan: Plan) -> Ended:
        self.records.keep(plan)
        run = Run(self.node, self.records, plan, self.limits, self.report)
        ended = run.run()
        self.moved += run.moved
        if ended.state == "stopped":
            number, last = run.applying.results[-1] if run.applying.results else (None, None)
            if number is None or last is None or last.result in DONE:
                raise CommandError(f"shard {self.shard} is not empty: {ended.reason}")
            self.stuck[plan.moves[number].key] = f"{last.result}: {last.reason}"
        return ended


def with_leaving(rules: Rules, shard: int) -> Rules:
    """Return the rules with the shard as one to be emptied."""
    return replace(rules, leaving=rules.leaving | {shard})


def leaving_plan(
    rows: list[QueueRow], world: World, shard: int, rules: Rules, stuck: Collection[Key], *, now: float, lasts: float
) -> Plan:
    """Return the plan that moves queues off a shard, except those stuck there. It may be applied for `lasts` seconds
    from `now` on.
    """
    homes = [replace(home, immovable="stuck") if home.key in stuck else home for home in world.homes]
    return make_plan(
        rows, replace(world, homes=homes), with_leaving(rules, shard),
        source=f"draining of shard {shard}", now=now, lasts=lasts, even=False,
    )  # fmt: skip


def reasons(rows: list[QueueRow], world: World, shard: int, rules: Rules, stuck: dict[Key, str]) -> dict[Key, str]:
    """Return the reason why each remaining queue of a shard is still there."""
    balance = balance_of({row.key: row for row in rows}, world, with_leaving(rules, shard))
    found: dict[Key, str] = {}
    for number, item in enumerate(balance.items):
        home: Home = item.home
        if home.shard == shard:
            obstacles = dict.fromkeys(balance.obstacle(number, target) for target in balance.staying)
            found[home.key] = stuck.get(home.key) or ", ".join(filter(None, obstacles)) or "not moved yet"
    return found
