"""The schedule of an acceptor's turns: one for everything that was read, and later ones for what waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.links.outgoing import SETTLING_SECONDS
from acceptor.turn_schedule import TurnSchedule
from tests.acceptor.gates.test_rates import limit, opened, publish
from tests.shard.store.test_flushes import Loop
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("a")
        yield node


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def schedule_of(node: Node, loop: Loop) -> tuple[TurnSchedule, list[float]]:
    """Return the schedule of an acceptor's turns, and a list of the times at which it had one finished."""
    finished: list[float] = []
    return TurnSchedule(loop, node.core(0), lambda: finished.append(loop.clock)), finished


def test_one_turn_for_all_that_was_read(node: Node, loop: Loop) -> None:
    schedule, finished = schedule_of(node, loop)
    schedule.ask()
    schedule.ask()
    loop.turn()
    assert len(finished) == 1
    schedule.begin()
    schedule.ask()
    schedule.begin()
    loop.turn()
    assert len(finished) == 1, "another turn had all that was read"


def test_settlements_that_wait_get_a_turn_of_their_own(node: Node, loop: Loop) -> None:
    schedule, finished = schedule_of(node, loop)
    schedule.sent()
    client = open_channel(node)
    client.call("basic.consume", 1, queue="a")
    client.publish(1, b"m", routing_key="a")
    node.settle()
    client.send("basic.ack", 1, delivery_tag=1)
    client.read()
    assert node.core(0).waits()
    schedule.sent()
    schedule.sent()
    loop.turn()
    assert not finished
    loop.clock += SETTLING_SECONDS
    loop.turn()
    assert finished == [loop.clock] and node.core(0).state.now == loop.clock
    loop.clock += SETTLING_SECONDS
    loop.turn()
    assert len(finished) == 1


def test_gates_that_open_with_time_are_served_when_they_may_have_room(node: Node, loop: Loop) -> None:
    schedule, finished = schedule_of(node, loop)
    schedule.end()
    loop.turn()
    assert not finished
    limit(node, "queues", max_rate=10)
    publish(opened(node, 0), 40)
    seconds = node.core(0).gates.metered.due()
    assert seconds is not None
    schedule.end()
    schedule.end()
    loop.clock += 2 * seconds
    loop.turn()
    assert len(finished) == 1
