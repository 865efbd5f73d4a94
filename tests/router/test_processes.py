"""The router finds deaths and the incarnations of shards in the gauges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import DEAD, READY, STARTING, Gauges
from penstock.node.node import Role
from router.core import RouterCore
from router.processes import Processes
from tests.router.making import Asked
from tests.simulator.joined.router import MemoryStore


class World:
    """A router of two acceptors and two shards."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.asked = Asked(shards=2)
        self.processes = Processes(RouterCore(self.asked.authority, MemoryStore()), gauges)

    def write(self, role: Role, index: int, state: int, incarnation: int) -> None:
        """Write the state of a process, as the supervisor does."""
        self.gauges.process_write(
            role, index, pid=1, incarnation=incarnation, state=state, started_us=0, restarts=0
        )  # fmt: skip

    def declare(self, name: str, connection: str) -> None:
        """Declare an exclusive queue of a connection."""
        self.asked.done("queue_declare", name=name, exclusive=True, connection=connection)

    def queues(self) -> set[str]:
        """Return the names of all queues."""
        return {queue.name for queue in self.asked.topology.queues()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=2, shards=2, queues=100, pid=os.getpid()) as gauges:
        yield World(gauges)


def test_the_exclusive_queues_of_a_dead_acceptor_go_and_those_of_its_successor_stay(world: World) -> None:
    world.declare("old", "0.1.1")
    world.declare("new", "0.2.1")
    world.declare("other", "1.1.1")
    world.write("acceptor", 0, READY, 2)
    world.write("acceptor", 1, READY, 1)
    world.processes.handle_deaths()
    assert world.queues() == {"new", "other"}
    world.write("acceptor", 0, DEAD, 2)
    world.processes.handle_deaths()
    assert world.queues() == {"other"}


def test_of_an_acceptor_that_has_not_started_nothing_is_concluded(world: World) -> None:
    world.declare("q", "0.1.1")
    world.processes.handle_deaths()
    assert world.queues() == {"q"}


@pytest.mark.parametrize(("state", "incarnation"), [(READY, 3), (STARTING, 0), (DEAD, 0)])
def test_only_a_serving_shard_has_an_incarnation(world: World, state: int, incarnation: int) -> None:
    world.write("shard", 1, state, 3)
    assert world.asked.authority.moves.incarnation_of(1) == incarnation


def test_a_move_is_rolled_back_when_a_shard_has_died(world: World) -> None:
    for shard in (0, 1):
        world.write("shard", shard, READY, 1)
    world.asked.done("queue_declare", name="q")
    (queue,) = world.asked.topology.queues()
    moves = world.asked.authority.moves
    moves.start("/", "q", 1 - queue.shard, None, None, lambda result: None)
    world.processes.handle_deaths()
    assert queue.queue_id in moves.topology.moves
    world.write("shard", 1 - queue.shard, DEAD, 1)
    world.processes.handle_deaths()
    ((_, result),) = moves.take_answers()
    assert result["result"] == "rolled-back" and queue.queue_id not in moves.topology.moves


def test_the_bytes_of_a_shard_are_those_in_the_gauges(world: World) -> None:
    assert world.asked.authority.placing.bytes_of(1) == (0, 0)
    world.gauges.measures_write("shard", 1, loop_lag_p50_us=0, loop_lag_p99_us=0, commit_p99_us=0, stored_bytes=70)
    assert world.asked.authority.placing.bytes_of(1) == (0, 70)
