"""Gates that open with time: when channels are held there, when they are forgotten, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.gates.metered import FORGOTTEN_AFTER, HELD_AFTER, INTERVAL, Held, Metered
from acceptor.gates.shut_gate import ShutGate
from tests.acceptor.gates.test_rates import depth, limit, opened, publish
from tests.acceptor.gates.waiter import Shut, Waiter
from tests.simulator.joined.node import Node

MOMENT = 0.001


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2) as node:
        node.declare("a")
        yield node


def open_gate() -> ShutGate:
    """Return a gate at which no stop holds channels."""
    gate = Shut()
    gate.lifted = True
    return gate


def wait(metered: Metered, gate: ShutGate, channel: Waiter, now: float) -> None:
    gate.waiting[channel] = None
    metered.waits(gate, channel, now)


def leave(metered: Metered, gate: ShutGate, channel: Waiter, now: float) -> None:
    del gate.waiting[channel]
    metered.leaves(gate, channel, now)


def test_a_channel_is_held_once_it_has_waited_for_long() -> None:
    metered, gate, channel = Metered(0.0), open_gate(), Waiter()
    wait(metered, gate, channel, 10.0)
    metered.hold_overdue(10.0 + HELD_AFTER - MOMENT)
    assert channel.held_by is None
    metered.hold_overdue(10.0 + HELD_AFTER)
    assert channel.held_by is gate
    assert metered.changed(11.0) == ([Held(gate, "/", 11.0, 1)], [])


def test_a_channel_that_waits_again_and_again_has_waited_since_the_first_time() -> None:
    metered, gate, channel = Metered(0.0), open_gate(), Waiter()
    now = 10.0
    while now < 10.0 + HELD_AFTER:
        wait(metered, gate, channel, now)
        leave(metered, gate, channel, now + MOMENT)
        now += FORGOTTEN_AFTER / 2
        metered.hold_overdue(now)
    wait(metered, gate, channel, now)
    metered.hold_overdue(now + FORGOTTEN_AFTER)
    assert channel.held_by is gate


def test_a_channel_that_stays_away_is_forgotten() -> None:
    metered, gate, channel = Metered(0.0), open_gate(), Waiter()
    wait(metered, gate, channel, 10.0)
    leave(metered, gate, channel, 10.1)
    metered.hold_overdue(10.1 + FORGOTTEN_AFTER)
    assert not metered.since and not metered.channels
    assert len(metered.pending) == len(metered.leaving) == 0
    wait(metered, gate, channel, 20.0)
    metered.hold_overdue(20.0 + HELD_AFTER - MOMENT)
    assert channel.held_by is None, "its time begins anew"


def test_a_stop_that_holds_the_channels_is_left_to_announce_it() -> None:
    metered, gate, channel = Metered(0.0), Shut(), Waiter()
    wait(metered, gate, channel, 10.0)
    metered.hold_overdue(10.0 + HELD_AFTER)
    assert channel.held_by is None
    gate.lifted = True
    metered.hold_overdue(10.0 + 2 * HELD_AFTER)
    assert channel.held_by is gate


def test_a_place_is_reported_when_its_first_channel_is_held_and_when_none_waits_any_more() -> None:
    metered, gate = Metered(0.0), open_gate()
    channels = [Waiter(str(number), vhost="/" if number < 2 else "other") for number in range(3)]
    for channel in channels:
        wait(metered, gate, channel, 10.0)
    metered.hold_overdue(11.0)
    begun, over = metered.changed(11.0)
    assert (begun, over) == ([Held(gate, "/", 11.0, 2), Held(gate, "other", 11.0, 1)], [])
    late = Waiter("late")
    wait(metered, gate, late, 11.0)
    metered.hold_overdue(12.0)
    assert late.held_by is gate
    assert metered.changed(12.0) == ([], []), "that place is known"
    for channel in channels:
        leave(metered, gate, channel, 12.0)
    metered.hold_overdue(13.0)
    assert metered.changed(13.0) == ([], [Held(gate, "other", 11.0, 1)])
    leave(metered, gate, late, 13.0)
    metered.hold_overdue(14.0)
    assert metered.changed(14.0) == ([], [Held(gate, "/", 11.0, 2)])
    assert not metered.held


@given(st.integers(0, 7), st.floats(0, 1e6))
def test_acceptors_poll_each_at_its_own_phase_of_the_interval(index: int, due: float) -> None:
    phase = INTERVAL * index / 8
    at = Metered(phase).in_turn(due)
    assert due <= at <= due + INTERVAL
    off = (at - phase) % INTERVAL
    assert min(off, INTERVAL - off) == pytest.approx(0, abs=1e-6)


# Channels of a whole node


def test_short_waits_are_not_told(node: Node) -> None:
    client = opened(node, 0)
    limit(node, "queues", max_rate=100)
    publish(client, 130)
    node.settle(rechecks=4)
    assert depth(node) == 130 and not client.names(1)


def test_nobody_is_looked_at_before_it_is_time(node: Node) -> None:
    """However many channels wait at a rate, the cost of a poll depends on the events since the last one."""
    limit(node, "queues", max_rate=10, rate_burst="100 ms")
    clients = [opened(node, 0) for _ in range(30)]
    for each in clients:
        publish(each, 3)
    node.settle(rechecks=8)
    metered = node.core(0).gates.metered
    assert len(node.core(0).holding.holds.held) == len(metered.since) == 30
    assert not metered.pending and not metered.leaving
    node.settle(rechecks=60)
    assert depth(node) < 90 and len(metered.since) > 5
    for each in clients:
        each.lose()
    limit(node, "queues")
    node.settle(rechecks=5)
    assert not metered.since and not metered.channels and not metered.closed
