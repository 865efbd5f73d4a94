"""The priority lane: messages that pass a stopped queue, how far and in which order, and the cost to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, fill_beside, open_channel

STOP = 16


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"parking_bytes": 1 << 26}) as node:
        yield node


def declare(node: Node, **arguments: Any) -> None:
    spelled = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": 4, **spelled})
    node.bind("x", "q")


def publish(client: Client, *bodies: bytes, priority: int | None = None, key: str = "data") -> None:
    options = {} if priority is None else {"priority": priority}
    for body in bodies:
        client.publish(1, body, exchange="x", routing_key=key, **options)
    client.node.settle()


def bodies(node: Node, reader: Client) -> list[bytes]:
    """Read all messages of the queue; return their bodies."""
    for _ in range(200):
        reader.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(rechecks=0)
    return [event.body for event in reader.events[1] if event.name == "basic.get-ok"]


def test_a_priority_passes_up_to_the_reserve(node: Node) -> None:
    declare(node, lane_priority=5, lane_reserve=10)
    client = open_channel(node)
    publish(client, *[b"data"] * 40)
    full = node.state("q").depth
    assert full <= STOP + 1
    publish(client, b"low", priority=4)
    publish(client, b"high", priority=5)
    publish(client, b"higher", priority=9)
    assert node.state("q").depth == full + 2
    publish(client, *[b"high"] * 40, priority=7)
    assert node.state("q").depth == STOP + 1 + 10
    assert node.state("q").saturation.over_count == 11 == node.state("q").limits.marks.overshoot_bound(1, 10)[0]
    found = bodies(node, open_channel(node))
    assert len(found) == 83 and found[full : full + 2] == [b"high", b"higher"]


@pytest.mark.parametrize("mark", [{}, {"flow_stop_size": 1 << 20, "flow_resume_size": 1 << 16}], ids=["count", "bytes"])
def test_what_another_acceptor_has_under_way_is_bounded(mark: dict[str, int]) -> None:
    """The other acceptor's turn is in flight while this one fills the queue."""
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        count = {} if mark else {"flow_stop_count": 1000, "flow_resume_count": 100}
        arguments = {"lane_priority": 5, "lane_reserve": 100} | (mark or count)
        queue = node.declare("q", **{f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
        late, client = open_channel(node, acceptor=1), open_channel(node)
        for sender in (late, client):
            for _ in range(2000):
                sender.publish(1, bytes(1024), routing_key="q", priority=7)
        fill_beside(node, queue, late, client)
        state = node.state("q")
        marks = state.limits.marks
        if mark:
            most = marks.stop_bytes + marks.overshoot_bound(2, 100)[1] + 2 * 1200
            assert marks.stop_bytes < state.depth_bytes <= most
        else:
            assert marks.stop_count < state.depth <= marks.stop_count + 2 * marks.overshoot_count + 100
        assert state.saturation.over_count <= marks.overshoot_bound(2, 100)[0]


def test_nobody_overtakes_who_waits_for_a_lane(node: Node) -> None:
    declare(node, lane_priority=5, lane_reserve=10)
    early, late = [open_channel(node) for _ in range(2)]
    publish(early, *[b"data"] * 40)
    publish(early, *[b"%d" % number for number in range(30)], priority=7)
    reader = open_channel(node)
    reader.send("basic.get", 1, queue="q", no_ack=True)
    publish(late, b"late", priority=7)
    found = [body for body in bodies(node, reader) if body != b"data"]
    assert [body for body in found if body.isdigit()] == [b"%d" % number for number in range(30)]
    assert found.index(b"late") >= 10


def test_a_run_is_cut_where_priorities_change(node: Node) -> None:
    declare(node, lane_priority=5)
    client = open_channel(node)
    publish(client, *[b"data"] * 40)
    for number in range(6):
        client.publish(1, b"%d" % number, exchange="x", routing_key="data", priority=9 if number % 2 else 0)
    node.settle()
    found = bodies(node, open_channel(node))
    first = [found.index(b"%d" % number) for number in range(6)]
    assert sorted(first[1::2]) == first[1::2] and sorted(first[::2]) == first[::2]
    assert max(first[1::2]) < min(first[::2])


def test_a_routing_key_passes_and_its_confirm_is_not_withheld(node: Node) -> None:
    declare(node, lane_key="wildcard:control.>")
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, *[b"data"] * 40)
    client.events[1].clear()
    publish(client, b"stop", key="control.stop")
    acks = [(event.delivery_tag, event.multiple) for event in client.events[1] if event.name == "basic.ack"]
    assert acks == [(41, False)]
    assert b"stop" in bodies(node, open_channel(node))[: STOP + 4]


def test_in_bytes(node: Node) -> None:
    declare(node, flow_stop_count=0, flow_resume_count=0, flow_stop_size=1 << 20, flow_resume_size=1 << 19,
            lane_priority=1, lane_reserve=5)  # fmt: skip
    client = open_channel(node)
    publish(client, *[bytes(10_000)] * 200)
    publish(client, *[bytes(10_000)] * 20, priority=1)
    marks = node.state("q").limits.marks
    most = marks.stop_bytes + marks.overshoot_bytes + marks.reserve_bytes
    assert most - 10_000 < node.state("q").depth_bytes <= most + 10_000


def test_it_overtakes_no_method(node: Node) -> None:
    declare(node, lane_priority=5)
    client = open_channel(node)
    publish(client, *[b"data"] * 40)
    full = node.state("q").depth
    client.send("queue.declare", 1, queue="another")
    publish(client, b"high", priority=9)
    assert node.state("q").depth == full


def test_a_policy_may_come_and_go(node: Node) -> None:
    declare(node)
    client = open_channel(node)
    publish(client, *[b"data"] * 40)
    full = node.state("q").depth
    publish(client, b"high", priority=9)
    assert node.state("q").depth == full and not node.core(0).gates.lanes
    node.policy("p", "", {"lane-priority": 9})
    publish(client, b"high", priority=9)
    assert node.state("q").depth == full + 1
    node.now += 10
    publish(client, *[b"high"] * 20, priority=9)
    assert node.state("q").depth == full + 21 and node.state("q").saturation.over_count == 20
    node.policy("p", "", None)
    publish(client, b"high", priority=9)
    node.now += 10
    node.settle()
    assert node.state("q").depth == full + 21 and not node.core(0).gates.lanes
    assert node.state("q").saturation.over_count <= 1, "what is there is nobody's doing"
