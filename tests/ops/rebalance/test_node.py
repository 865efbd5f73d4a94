"""A plan's view of a running node: places, gauges, use of CPU, health."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.rebalance.applying import Health
from ops.rebalance.goals import Home
from ops.rebalance.node import CPU_SECONDS_MIN, RunningNode
from penstock.control.control import Refusal
from penstock.memory.gauges import DEAD
from tests.ops.rebalance.synthetic import row
from tests.ops.served import ServedNode, served, write

MIB = 1 << 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served(tmp_path / "data", store={"limit": 100 * MIB}) as node:
        yield node


def test_without_a_node_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=f"^no node runs on {tmp_path}$"):
        RunningNode(tmp_path)


def test_the_world_is_that_of_the_router_and_the_gauges(node: ServedNode) -> None:
    first, second = node.declare("a", 1), node.declare("b", 0)
    write(node.gauges, 1, ready_bytes=3000, stop_bytes=MIB, resume_bytes=MIB // 2)
    node.gauges.measures_write("shard", 1, 0, 0, 0, 77)
    node.set_process("shard", 0, DEAD)
    world = RunningNode(node.data).world()
    assert sorted(world.homes, key=lambda home: home.queue) == [Home("/", "a", first, 1), Home("/", "b", second, 0)]
    dead, alive = world.shards
    assert (dead.alive, alive.alive) == (False, True)
    assert (alive.memory, alive.memory_limit, alive.store, alive.store_limit) == (3000, MIB, 77, 50 * MIB)
    assert alive.cpu is None, "it was not measured"
    assert world.closed == frozenset()


def test_cpu_use_is_of_shards_that_had_a_process_before(node: ServedNode) -> None:
    """Both shards have the pid of this process, which has used CPU; a shard with less than before was replaced."""
    running = RunningNode(node.data)
    one, other = running.world({0: 0.0}, seconds=1e6).shards
    assert one.cpu is not None and 0.0 < one.cpu < 1.0
    assert other.cpu is None
    one, other = running.world({0: 1e9, 1: 0.0}, seconds=1e6).shards
    assert one.cpu is None and other.cpu is not None


def test_cpu_use_is_unknown_where_a_tick_of_the_clock_would_look_like_a_busy_core(node: ServedNode) -> None:
    used = {0: 0.0, 1: 0.0}
    assert [shard.cpu for shard in RunningNode(node.data).world(used, seconds=0.01).shards] == [None, None]
    assert None not in [shard.cpu for shard in RunningNode(node.data).world(used, CPU_SECONDS_MIN).shards]


def test_a_shard_that_drains_is_closed(node: ServedNode) -> None:
    node.command("shard_drain", shard=1)
    assert RunningNode(node.data).world().closed == {1}


def test_gauges_are_of_queues_not_of_shards(node: ServedNode) -> None:
    id = node.declare("a", 1, ready=7, published=9)
    (gauge,) = RunningNode(node.data).gauges.queues_by_id().values()
    assert (gauge.queue_id, gauge.name, gauge.ready, gauge.counters.published) == (id, "a", 7, 9)


def test_the_health_is_the_worst_figure_of_any_process(node: ServedNode) -> None:
    running = RunningNode(node.data)
    assert running.health() == Health(0.0, 0.0, 0.0)
    node.gauges.measures_write("shard", 0, 1000, 3000, 0, 0)
    node.gauges.measures_write("acceptor", 0, 1000, 7500, 0, 0)
    node.gauges.counters_write("acceptor", 0, 3, 8, 2, *[0] * 17)
    write(node.gauges, 0, ready_bytes=MIB, stop_bytes=4 * MIB, resume_bytes=MIB)
    write(node.gauges, 1, ready_bytes=MIB, stop_bytes=2 * MIB, resume_bytes=MIB)
    assert running.health() == Health(7.5, 25.0, 50.0)
    node.set_process("acceptor", 0, DEAD)
    assert running.health().loop_lag_ms == 3.0, "a dead process has no loop"


def test_rows_come_from_two_readings_at_least(node: ServedNode) -> None:
    node.declare("a", 1, ready=7, whole_bytes=700)
    parts: list[float] = []
    ((seen,), world) = RunningNode(node.data).watched(0.01, parts.append)
    assert (seen.queue, seen.shard, seen.backlog, seen.backlog_bytes, seen.coverage) == ("a", 1, 7, 700, 1.0)
    assert all(shard.cpu is None for shard in world.shards)
    assert parts == sorted(parts) and parts[-1] <= 1.0


def test_a_watch_ends_with_the_node(tmp_path: Path) -> None:
    with ExitStack() as running:
        node = running.enter_context(served(tmp_path / "data"))
        watching = RunningNode(node.data, lambda _seconds: running.close())
        with pytest.raises(CommandError, match=f"^the node on {node.data} has stopped$"):
            watching.watched(300.0, lambda _part: None)


def test_earlier_rows_get_the_present_depths_and_places(node: ServedNode) -> None:
    node.declare("a", 1, ready=7)
    rows = [row("a", 0, 100.0, backlog=5), row("gone", 0, 100.0)]
    ((seen,), world) = RunningNode(node.data).recorded(rows, seconds=0.01)
    assert (seen.queue, seen.shard, seen.p95_rate, seen.backlog) == ("a", 1, 100.0, 7)
    assert [home.queue for home in world.homes] == ["a"]


def test_refusals_pass_and_a_lost_socket_is_an_error(node: ServedNode) -> None:
    running = RunningNode(node.data)
    with pytest.raises(Refusal, match="unknown command 'dance'"):
        running.ask("dance")
    node.node.control.unlink()
    with pytest.raises(CommandError, match=r"^the node does not answer: "):
        running.placement()
