"""Synthetic queues and shards, for planners."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import HealthCheck, settings, strategies

from ops.rebalance.goals import Home, Rules, Shard
from ops.rebalance.making import make_plan
from ops.rebalance.plan import Move, Plan, PlanError, World
from ops.rebalance.rows import QueueRow
from router.model.placement import place

VHOST = "/"
NOW = 1_800_000_000.0
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])  # its duration depends on the load of the machine


def row(queue: str, shard: int, rate: float = 0.0, backlog: int = 0, **more: float) -> QueueRow:
    """Return a queue's row of figures."""
    values = {"stopped_share": 0.0, "coverage": 1.0, "p95_bytes_rate": rate * 100, **more}
    nbytes = backlog * 100
    return QueueRow(VHOST, queue, shard, rate / 2, rate, values["p95_bytes_rate"], backlog, nbytes,
                    values["stopped_share"], backlog, nbytes, values["coverage"])  # fmt: skip


def world(rows: Sequence[QueueRow], shards: Sequence[Shard] | int, version: int = 1) -> World:
    """Return the world in which queues live where their rows say."""
    homes = [Home(each.vhost, each.queue, number, each.shard) for number, each in enumerate(rows, 1)]
    living = [Shard(index) for index in range(shards)] if isinstance(shards, int) else shards
    return World(homes, living, version)


def one_hot(seed: int, queues: int = 2000, shards: int = 8, hot: int = 3) -> list[QueueRow]:
    """Return queues placed by the hash, a few of which have most of the load; one shard has busier queues than the
    others.
    """
    chance = random.Random(seed)
    rows = []
    for number in range(queues):
        name = f"queue.{number}"
        shard = place(VHOST, name, range(shards), {})
        rate = min(chance.paretovariate(1.2) * 20, 3000) * (2.1 if shard == hot else 1)
        backlog = 0 if chance.random() < 0.6 else int(chance.paretovariate(0.7) * 10)
        stopped = 0.3 if chance.random() < 0.01 else 0.0
        rows.append(row(name, shard, rate, backlog, stopped_share=stopped))
    return rows


def moved(start: World, plan: Plan | Sequence[Move]) -> World:
    """Return the world after moves. AssertionError if a queue is not where a move takes it from."""
    moves = plan.moves if isinstance(plan, Plan) else plan
    places = {home.key: home for home in start.homes}
    for move in moves:
        home = places[move.key]
        assert (home.shard, home.queue_id) == (move.source, move.queue_id)
        places[move.key] = Home(home.vhost, home.queue, home.queue_id, move.target, home.immovable)
    return World(list(places.values()), start.shards, start.placement_version + len(moves))


RULES = Rules(low_rate=10.0)


def plan_for(rows: Sequence[QueueRow], at: World, rules: Rules = RULES) -> Plan:
    """Make the plan for these rows."""
    return make_plan(rows, at, rules, source="test", now=NOW, lasts=3600)


def load(plan: Plan, when: str = "after") -> float:
    """Return the largest load of a shard over the mean."""
    score: float = getattr(plan, when)["load"]["max_over_mean"]
    return score


def made_or_none(case: tuple[list[QueueRow], World, Rules]) -> Plan | None:
    """Make the plan of a case of `worlds`; None if too little is known."""
    try:
        return plan_for(*case)
    except PlanError:
        return None


rates = strategies.one_of(
    strategies.just(0.0), strategies.floats(0, 50), strategies.integers(0, 5000).map(float), strategies.floats(1e3, 1e5)
)
backlogs = strategies.one_of(strategies.just(0), strategies.integers(0, 2000), strategies.integers(0, 10**7))


@strategies.composite
def rules(draw: strategies.DrawFn, shards: int) -> Rules:
    """Draw rules for planning."""
    indexes = strategies.frozensets(strategies.integers(0, shards - 1), max_size=1)
    return Rules(
        low_rate=draw(strategies.sampled_from([0.0, 10.0, 1000.0])),
        pins=tuple(draw(strategies.lists(strategies.sampled_from(["*/q1*", "*/q3", "other/*"]), max_size=2))),
        excluded=draw(indexes),
        leaving=draw(indexes),
        queues_max=draw(strategies.one_of(strategies.none(), strategies.integers(1, 40))),
    )


@strategies.composite
def worlds(draw: strategies.DrawFn) -> tuple[list[QueueRow], World, Rules]:
    """Draw up to forty queues on two to five shards, some of them dead, short of memory, store or CPU."""
    count = draw(strategies.integers(2, 5))
    optional = strategies.one_of(strategies.none(), strategies.integers(0, 10**9))
    shards = [
        Shard(
            index,
            alive=draw(strategies.integers(0, 9)) > 0,
            cpu=draw(strategies.one_of(strategies.none(), strategies.floats(0, 1))),
            memory=0,
            memory_limit=draw(optional),
            store=0,
            store_limit=draw(optional),
        )
        for index in range(count)
    ]
    rows, homes = [], []
    for number in range(draw(strategies.integers(0, 40))):
        at = draw(strategies.integers(0, count - 1))
        share = draw(strategies.sampled_from([0.0, 0.0, 0.1, 1.0]))
        coverage = draw(strategies.sampled_from([1.0, 1.0, 1.0, 0.9, 0.2]))
        name = f"q{number}"
        each = row(name, at, draw(rates), draw(backlogs), stopped_share=share, coverage=coverage)
        rows.append(each)
        homes.append(
            Home(VHOST, name, number + 1, at, immovable=draw(strategies.sampled_from(["exclusive"] + [""] * 9)))
        )
    return rows, World(homes, shards, draw(strategies.integers(0, 9))), draw(rules(count))
