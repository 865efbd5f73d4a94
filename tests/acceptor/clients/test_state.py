"""The state shared by the parts of an acceptor: its clock, timers, numbers, and place in the gauges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.state import AcceptorState
from penstock import bus
from penstock.memory.gauges import READY
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=3) as node:
        yield node


@pytest.fixture
def state(node: Node) -> AcceptorState:
    return node.core(0).state


def test_a_timer_is_due_once_and_not_before_its_time(state: AcceptorState) -> None:
    done: list[str] = []
    state.later(2, lambda: done.append("late"))
    state.later(1, lambda: done.append("early"))
    for seconds, expected in ((0.9, []), (0.1, ["early"]), (1, ["early", "late"]), (10, ["early", "late"])):
        state.now += seconds
        state.run_due()
        assert done == expected


def test_a_timer_may_start_the_next_one(state: AcceptorState) -> None:
    done: list[float] = []

    def again() -> None:
        done.append(state.now)
        state.later(1, again)

    state.later(0, again)
    begin = state.now
    for _ in range(3):
        state.run_due()
        state.now += 1
    assert done == [begin, begin + 1, begin + 2]


def test_groups_of_channels_differ_and_begin_with_the_number_of_their_connection(node: Node) -> None:
    first, second = open_channel(node), open_channel(node)
    for client in (first, second):
        client.call("channel.open", 2)
    groups = [channel.group for client in (first, second) for channel in client.connection.channels.values()]
    assert len(set(groups)) == 4
    numbers = [client.connection.number for client in (first, first, second, second)]
    assert [group >> bus.GROUP_BITS for group in groups] == numbers


@pytest.mark.parametrize("used", [0, (1 << bus.GROUP_BITS) - 2, (1 << bus.GROUP_BITS) - 1, 3 << bus.GROUP_BITS])
def test_a_group_keeps_within_its_bits_however_many_channels_there_were(
    node: Node, state: AcceptorState, used: int
) -> None:
    connection = node.visit().connection
    state.last_group = used
    assert state.next_group(connection) >> bus.GROUP_BITS == connection.number


def test_the_replica_is_behind_until_it_has_the_version_of_the_gauges(node: Node, state: AcceptorState) -> None:
    node.settle()
    assert not state.behind()
    node.declare("q")
    assert state.behind()
    node.settle()
    assert not state.behind()


@pytest.mark.parametrize(("incarnation", "has_place"), [(0, True), (1, True), (2, False)])
def test_gauges_of_another_incarnation_are_not_its_own(node: Node, incarnation: int, has_place: bool) -> None:
    state = node.core(0).state
    assert state.incarnation == 1
    node.gauges.process_write(
        "acceptor", 0, pid=1, incarnation=incarnation, state=READY, started_us=0, restarts=0
    )  # fmt: skip
    assert state.has_place() is has_place


def test_the_index_of_no_shard_follows_those_of_the_shards(state: AcceptorState) -> None:
    assert [link.index for link in state.links] == [0, 1, 2]
    assert state.nowhere == 3


def test_the_channels_are_those_of_all_connections(node: Node, state: AcceptorState) -> None:
    first, second = open_channel(node), open_channel(node)
    first.call("channel.open", 9)
    assert sorted(channel.number for channel in state.channels()) == [1, 1, 9]
    second.lose()
    assert {channel.connection for channel in state.channels()} == {first.connection}
