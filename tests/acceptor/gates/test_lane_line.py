"""The line for a queue's priority lane: how much of the reserve is given, to which channels, and at which acceptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from acceptor.gates.claims import Claims
from acceptor.gates.gate import UNLIMITED
from acceptor.gates.lane import Lane
from acceptor.gates.lane_line import RECHECK_SECONDS, LaneLine
from acceptor.gates.metered import Metered
from acceptor.gates.queue_gate import QueueGate
from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from tests.acceptor.gates.waiter import Waiter
from tests.acceptor.publishing.test_lanes import STOP, bodies, declare, publish
from tests.simulator.joined.node import Node, open_channel

SLOT = 5
MARKS = Marks(160, 100)
END = 160 + 10 + 40
"""The stop mark, its overshoot, and the reserve."""


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=2, shards=1, queues=8, pid=os.getpid()) as made:
        made.queue_open(SLOT, 1, "/", "orders", 1)
        yield made


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": 1 << 26}) as node:
        yield node


def deep(gauges: Gauges, count: int, aside: bool = False) -> None:
    gauges.queue_write(SLOT, count, 0, count, 0, 0, 0, 0, 0, 0, 0, 1, count > 160, 1, 0, 0, 0, 0, aside)


def line_of(gauges: Gauges, acceptors: int = 1, acceptor: int = 0) -> LaneLine:
    queue_gate = QueueGate(gauges, acceptors, 1, SLOT, "/", "orders", QueueLimits(None, None, "flow", MARKS))
    queue_gate.lane = Lane(5, "", 40)
    queue_gate.lane_line = line = LaneLine(queue_gate, Metered(0.0), lambda: 100.0, Claims(gauges, acceptor, 1))
    return line


class Urgent(Waiter):
    """A channel with `parked` messages for the lane."""

    def __init__(self, line: LaneLine, name: str, parked: int, weight: int = 1) -> None:
        super().__init__(name, weight=weight)
        self.line = line
        self.lane = parked
        self.sent = 0
        line.wait(self)

    def pass_lane(self, most: int) -> int:
        sent = super().pass_lane(most)
        for each in (self.line, self.line.queue_gate):
            each.in_flight += sent
        self.sent += sent
        return sent


def test_the_room_is_what_is_left_of_the_reserve_and_not_in_flight(gauges: Gauges) -> None:
    line = line_of(gauges)
    for depth, in_flight, room in ((180, 0, 30), (180, 20, 10), (180, 50, 0), (END, 0, 0), (END + 5, 0, 0)):
        deep(gauges, depth)
        line.queue_gate.in_flight = in_flight
        assert line.room() == (room, UNLIMITED)
        assert line.is_saturated() == (room == 0)
        assert line.admits(room, 1 << 40) and not line.admits(room + 1, 1)


def test_without_a_lane_or_at_a_queue_that_stands_aside_there_is_no_bound(gauges: Gauges) -> None:
    line = line_of(gauges)
    deep(gauges, END, aside=True)
    assert line.room() == (UNLIMITED, UNLIMITED)
    deep(gauges, END)
    line.queue_gate.lane = None
    assert line.room() == (UNLIMITED, UNLIMITED)


def test_two_acceptors_are_given_the_reserve_once(gauges: Gauges) -> None:
    one, other = line_of(gauges, 2, 0), line_of(gauges, 2, 1)
    deep(gauges, 180)
    assert one.room()[0] == other.room()[0] == 15
    for line in (one, other):
        line.in_flight = line.queue_gate.in_flight = 15
    assert one.room()[0] == other.room()[0] == 0
    one.queue_gate.in_flight = 0
    one.arrived(15, 0)
    deep(gauges, 195)
    assert (one.in_flight, one.claim.count) == (0, 0)
    assert one.room()[0] == 0, "the other's messages are not in the depth yet"


def test_what_a_line_has_in_flight_is_claimed_no_longer_once_the_lane_is_gone(gauges: Gauges) -> None:
    one, other = line_of(gauges, 2, 0), line_of(gauges, 2, 1)
    deep(gauges, 180)
    one.room()
    one.in_flight = one.queue_gate.in_flight = 15
    one.close()
    assert other.room()[0] == 15
    other.in_flight = other.queue_gate.in_flight = 15
    assert other.room()[0] == 15, "the rest, which was claimed"


def test_channels_take_turns_by_their_weights(gauges: Gauges) -> None:
    line = line_of(gauges)
    light, heavy = Urgent(line, "light", 4000), Urgent(line, "heavy", 4000, weight=3)
    for _ in range(100):  # the reserve is emptied repeatedly
        line.in_flight = line.queue_gate.in_flight = 0
        deep(gauges, END - 40)
        while line.room()[0]:
            line.serve()
    assert light.sent + heavy.sent == 4000
    assert heavy.sent == pytest.approx(3000, rel=0.1)


def test_a_channel_with_nothing_for_the_lane_leaves_the_line_at_its_turn(gauges: Gauges) -> None:
    line = line_of(gauges)
    deep(gauges, END - 40)
    idle, busy = Urgent(line, "idle", 0), Urgent(line, "busy", 15)
    line.serve()
    assert busy.sent == 15 and idle.admitted
    assert not line.waiting


def test_waiting_channels_are_polled_as_no_event_announces_room(gauges: Gauges) -> None:
    line = line_of(gauges)
    deep(gauges, END)
    channel = Urgent(line, "a", 5)
    metered = line.metered
    metered.serve()
    assert not channel.sent and metered.due() == RECHECK_SECONDS
    deep(gauges, END - 5)
    metered.serve()
    assert channel.sent == 5 and metered.due() is None


# Lines of a whole node


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("acceptors", [2, 4])
def test_the_reserve_is_used_once_whatever_is_under_way(acceptors: int, seed: int) -> None:
    chance = Random(seed)
    with Node(acceptors, flow={"parking_bytes": 1 << 26}) as node:
        declare(node, flow_stop_count=160, flow_resume_count=100, lane_priority=5, lane_reserve=40)
        clients = [open_channel(node, acceptor=number % acceptors) for number in range(2 * acceptors)]
        reader = open_channel(node)
        deepest = 0
        for _ in range(500):
            acceptor, one = chance.randrange(acceptors), chance.choice(clients)
            step = chance.randrange(7)
            if step < 2:
                for _ in range(chance.randrange(60)):
                    one.publish(1, b"m", exchange="x", routing_key="data", priority=9 * step)
                one.read()
            elif step == 2:
                reader.send("basic.get", 1, queue="q", no_ack=True)
                reader.read()
            elif step == 3:
                node.now += 0.02
                node.meter(acceptor)
                node.recheck(acceptor)
            else:
                node.finish(acceptor)
                if chance.randrange(3):
                    node.send_up(acceptor, 0)
                node.finish_shard(0)
                node.send_down(0, acceptor)
            state = node.state("q")
            assert state.depth <= 160 + state.limits.marks.overshoot_bound(acceptors, 40)[0]
            deepest = max(deepest, state.depth)
        assert deepest >= 160 + 40
        node.settle(rechecks=3)
        node.settle()
        lines = [node.core(index).gates.queue_gates[node.queue("q").queue_id].lane_line for index in range(acceptors)]
        assert all(line is not None and (line.in_flight, line.claim.count) == (0, 0) for line in lines)


def test_a_burst_beyond_an_acceptors_share_goes_on_as_far_as_the_reserve_has_room() -> None:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        declare(node, lane_priority=5, lane_reserve=40)
        client = open_channel(node)
        publish(client, *[b"data"] * 40)
        publish(client, *[b"high"] * 60, priority=7)
        node.settle(rechecks=20)
        assert node.state("q").depth == STOP + 1 + 40


def test_what_waits_for_a_lane_goes_on_in_turn_as_messages_leave(node: Node) -> None:
    declare(node, lane_priority=5, lane_reserve=10)
    clients = [open_channel(node) for _ in range(2)]
    publish(clients[0], *[b"data"] * 40)
    publish(clients[0], *[b"first"] * 30, priority=7)
    publish(clients[1], *[b"second"] * 30, priority=7)
    full = STOP + 1 + 10
    reader = open_channel(node)
    for _ in range(10):
        assert node.state("q").depth == full and node.state("q").saturation.saturated
        reader.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(rechecks=1)
    let_in = bodies(node, reader)[full : full + 10]
    assert sorted(let_in) == [b"first"] * 5 + [b"second"] * 5


def test_weights_count_when_one_message_leaves_at_a_time(gauges: Gauges) -> None:
    line = line_of(gauges)
    light, heavy = Urgent(line, "light", 1000), Urgent(line, "heavy", 1000, weight=3)
    for _ in range(400):
        line.in_flight = line.queue_gate.in_flight = 0
        deep(gauges, END - 1)
        line.serve()
    assert (light.sent, heavy.sent) == (100, 300)
