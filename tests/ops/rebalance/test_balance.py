"""A placement: its sums after any moves, the obstacles to a move, and the line above which a shard is relieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.rebalance.balance import Balance, items_of
from ops.rebalance.goals import GOALS, Goal, Home, Rules, Shard
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow
from tests.ops.rebalance.synthetic import VHOST, row, unhurried, worlds

LOAD = Goal("load", limit=110, aim=105, floor=1000)


def balance_of(rows: Sequence[QueueRow], shards: Sequence[Shard] | int, rules: Rules = Rules()) -> Balance:  # noqa: B008
    known = [Shard(index) for index in range(shards)] if isinstance(shards, int) else shards
    homes = [Home(VHOST, each.queue, number, each.shard) for number, each in enumerate(rows)]
    return Balance(items_of(homes, {each.key: each for each in rows}, known, {}), known, rules)


def test_items_are_in_order_of_name_with_their_weights() -> None:
    rows = [row("b", 0, 1.5, stopped_share=0.25), row("a", 0, 0.5)]
    items = balance_of(rows, [Shard(0, cpu=0.8)]).items
    assert [item.home.queue for item in items] == ["a", "b"]
    assert items[1].weights == {"load": 1500, "held": 250_000, "bytes": 150, "queues": 1}
    assert [item.cpu for item in items] == [200_000, 600_000], "the CPU use of a shard is shared by the rate"


def test_a_queue_without_a_row_is_one_queue_without_load() -> None:
    (item,) = items_of([Home(VHOST, "q", 1, 0)], {}, [Shard(0, cpu=1.0)], {(VHOST, "q"): "pinned"})
    assert (item.weights, item.cpu, item.copied) == ({"load": 0, "held": 0, "bytes": 0, "queues": 1}, 0, 0)
    assert item.fixed == "pinned"


def test_the_size_of_a_queue_is_in_messages_or_kib_whichever_is_more() -> None:
    small, large = (
        replace(row("s", 0, backlog=9), backlog_bytes=100),
        replace(row("l", 0, backlog=9), backlog_bytes=50_000),
    )
    assert [item.copied for item in balance_of([small, large], 1).items] == [48, 9]


@unhurried
@given(worlds(), st.data())
def test_sums_after_any_moves_are_those_of_the_new_placement(
    case: tuple[list[QueueRow], World, Rules], data: st.DataObject
) -> None:
    rows, at, rules = case
    items = items_of(at.homes, {each.key: each for each in rows}, at.shards, {})
    balance = Balance(items, at.shards, rules)
    alive = sorted(balance.shards)
    movable = [number for number, item in enumerate(items) if item.home.shard in balance.shards]
    for number in data.draw(st.lists(st.sampled_from(movable), max_size=10)) if movable else []:
        balance.move(number, data.draw(st.sampled_from(alive)))
    for shard in alive:
        there = [items[number] for number in balance.members[shard]]
        assert {number for number, home in balance.placed.items() if home == shard} == set(balance.members[shard])
        assert {goal: balance.sums[goal][shard] for goal in GOALS} == {
            goal: sum(item.weights[goal] for item in there) for goal in GOALS
        }
        for sums, used, amounts in (
            (balance.memory, balance.shards[shard].memory, [item.row.peak_bytes for item in items]),
            (balance.store, balance.shards[shard].store, [item.row.peak_bytes for item in items]),
            (balance.cpu, round((balance.shards[shard].cpu or 0.0) * 1e6), [item.cpu for item in items]),
        ):
            came = sum(amounts[n] for n in balance.members[shard] if items[n].home.shard != shard)
            left = sum(amounts[n] for n in movable if items[n].home.shard == shard and balance.placed[n] != shard)
            assert sums[shard] == (used or 0) + came - left


@pytest.mark.parametrize(
    ("target", "rules", "why"),
    [
        (Shard(1), Rules(), ""),
        (Shard(1, alive=False), Rules(), "shard is down"),
        (Shard(2), Rules(), "shard is down"),
        (Shard(1), Rules(excluded=frozenset({1})), "shard takes no queues"),
        (Shard(1), Rules(leaving=frozenset({1})), "shard takes no queues"),
        (Shard(1), Rules(queues_max=1), "shard has as many queues as it may have"),
        (Shard(1), Rules(queues_max=2), ""),
        (Shard(1, cpu=0.31), Rules(), "CPU of the shard"),
        (Shard(1, cpu=0.30), Rules(), ""),
        (Shard(1, memory=301, memory_limit=1000), Rules(), "memory of the shard"),
        (Shard(1, memory=300, memory_limit=1000), Rules(), ""),
        (Shard(1, store=401, store_limit=1000), Rules(store_percent=90), "store of the shard"),
        (Shard(1, store=400, store_limit=1000), Rules(store_percent=90), ""),
        (Shard(1, memory=301), Rules(), ""),
    ],
)
def test_each_hard_goal_is_an_obstacle_from_its_limit_on(target: Shard, rules: Rules, why: str) -> None:
    """The queue takes half a core and has 500 bytes."""
    rows = [row("q", 0, 10.0, backlog=5), row("x", 1)]
    balance = balance_of(rows, [Shard(0, cpu=0.5), target], rules)
    assert balance.obstacle(0, 1) == why


def test_a_fixed_queue_is_its_own_obstacle_and_a_queue_on_a_dead_shard_stays_there() -> None:
    homes = [Home(VHOST, "a", 1, 0), Home(VHOST, "b", 2, 1)]
    shards = [Shard(0), Shard(1, alive=False), Shard(2)]
    balance = Balance(items_of(homes, {}, shards, {(VHOST, "a"): "exclusive"}), shards, Rules())
    assert [balance.obstacle(number, 2) for number in (0, 1)] == ["exclusive", "shard is down"]
    assert balance.sums["queues"] == {0: 1, 2: 0}


def test_the_line_is_a_part_of_the_mean_of_the_staying_shards_or_the_floor() -> None:
    rows = [row("a", 0, 30.0), row("b", 1, 10.0), row("c", 2, 20.0)]
    assert balance_of(rows, 3).line(LOAD, 110) == 22_000
    assert balance_of(rows, 3, Rules(leaving=frozenset({2}))).line(LOAD, 110) == 33_000
    assert balance_of(rows, 3).line(replace(LOAD, floor=50_000), 110) == 50_000


def test_a_move_hurts_a_goal_only_where_it_makes_the_worst_shard_worse() -> None:
    rows = [row("a", 0, 30.0), row("big", 0, 30.0), row("b", 1, 20.0), row("c", 2, 40.0)]
    balance = balance_of(rows, 3)
    numbers = {item.home.queue: number for number, item in enumerate(balance.items)}
    assert balance.line(LOAD, LOAD.aim) == 42_000
    assert not balance.hurts(LOAD, numbers["a"], 1), "50 are more than the aim, but less than the 60 of the source"
    assert balance.hurts(LOAD, numbers["a"], 2)
    assert not balance.hurts(LOAD, numbers["b"], 1), "a queue that stays changes nothing"
    assert balance.hurts(LOAD, numbers["b"], 2)


def test_scores_are_in_units_for_people() -> None:
    balance = balance_of([row("a", 0, 30.0, stopped_share=0.5), row("b", 1, 10.0)], 2)
    assert balance.score("load") == {"max_over_mean": 1.5, "shards": {"0": 30.0, "1": 10.0}}
    assert balance.score("held") == {"max_over_mean": 2.0, "shards": {"0": 0.5, "1": 0.0}}
    assert balance_of([], 2).score("load")["max_over_mean"] == 1.0
