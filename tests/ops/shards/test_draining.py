"""Draining a shard: the queues that leave, their new shards, and the reasons why others stay."""

from __future__ import annotations

from dataclasses import replace

from ops.rebalance.goals import Home, Rules, Shard
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow
from ops.shards.draining import leaving_plan, reasons

RULES = Rules(min_coverage=0.0, pins=("*/pinned",))
MIB = 1 << 20


def row(name: str, shard: int, rate: float = 0.0, nbytes: int = 0) -> QueueRow:
    return QueueRow("/", name, shard, rate, rate, 0.0, 0, nbytes, 0.0, 0, 0, 1.0)


ROWS = [
    row("free", 1, 50.0),
    row("large", 1, 10.0, 100 * MIB),
    row("leased", 1),
    row("own", 1),
    row("pinned", 1),
    row("busy", 0, 90.0),
    row("elsewhere", 2),
]
HOMES = [Home("/", each.queue, index, each.shard) for index, each in enumerate(ROWS)]
HOMES[3] = replace(HOMES[3], immovable="it is exclusive")
SHARDS = [Shard(index, memory=0, memory_limit=MIB) for index in range(4)]
WORLD = World(HOMES, SHARDS, 7, closed=frozenset({1, 3}))


def test_queues_go_to_the_shard_with_least_to_do_that_takes_queues() -> None:
    plan = leaving_plan(ROWS, WORLD, 1, RULES, {}, now=1e9, lasts=60.0)
    assert [(move.queue, move.source, move.target) for move in plan.moves] == [("free", 1, 2), ("leased", 1, 2)]
    assert (plan.placement_version, plan.made, plan.expires) == (7, 1e9, 1e9 + 60)
    stuck = leaving_plan(ROWS, WORLD, 1, RULES, {("/", "leased")}, now=1e9, lasts=60.0)
    assert [move.queue for move in stuck.moves] == ["free"]


def test_where_the_load_is_even_queues_are_spread() -> None:
    rows = [row(f"q{number}", 1) for number in range(6)]
    homes = [Home("/", each.queue, index, 1) for index, each in enumerate(rows)]
    plan = leaving_plan(rows, World(homes, SHARDS[:3], 7), 1, RULES, {}, now=1e9, lasts=60.0)
    assert sorted(move.target for move in plan.moves) == [0, 0, 0, 2, 2, 2]


def test_why_queues_stay() -> None:
    assert reasons(ROWS, WORLD, 1, RULES, {("/", "leased"): "refused: it has a lease"}) == {
        ("/", "free"): "not moved yet",
        ("/", "large"): "memory of the shard",
        ("/", "leased"): "refused: it has a lease",
        ("/", "own"): "it is exclusive",
        ("/", "pinned"): "pinned",
    }
