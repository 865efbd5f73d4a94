"""Limits that a policy changes at run time: producers are released at once, and stopped at once.

Nothing here waits for the acceptors' regular recheck of the gauges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    client = node.connect(properties=JAVA)
    client.call("channel.open", 1)
    return client


def set_policy(node: Node, **definition: Any) -> None:
    node.policy("p", "^q$", {key.replace("_", "-"): value for key, value in definition.items()} or None)


def publish(client: Client, count: int) -> None:
    for number in range(count):
        client.publish(1, b"%d" % number, routing_key="q")


def depth(node: Node) -> int:
    return node.state("q").depth


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ({}, 30),
        ({"flow_stop_count": 100, "flow_resume_count": 50}, 30),
        ({"max_length": 3}, 3),
        ({"max_length": 9, "overflow": "reject-publish"}, 9),
    ],
    ids=str,
)
def test_the_held_are_let_go(node: Node, client: Client, after: dict[str, Any], left: int) -> None:
    set_policy(node, flow_stop_count=4)
    node.declare("q")
    publish(client, 30)
    node.settle()
    assert depth(node) <= 5 and client.connection.channels[1].held_by is not None
    set_policy(node, **after)
    node.settle()
    channel = client.connection.channels[1]
    assert (channel.held_by, len(channel.inbox)) == (None, 0)
    assert depth(node) == left
    assert [event.active for event in client.events[1] if event.name == "channel.flow"] == [False, True]


def test_who_waits_for_room_has_it_as_soon_as_the_acceptor_knows(node: Node, client: Client) -> None:
    set_policy(node, flow_stop_count=4)
    node.declare("q")
    node.settle()
    publish(client, 30)
    client.read()
    parked = client.connection.channels[1].inbox
    assert parked
    acceptor = node.acceptors[0]
    assert acceptor
    set_policy(node, flow_stop_count=1000)
    node.change(acceptor)
    assert not parked


def test_a_mark_below_the_depth_stops_at_once(node: Node, client: Client) -> None:
    node.declare("q")
    publish(client, 30)
    node.settle()
    epoch = node.state("q").saturation.epoch
    set_policy(node, flow_stop_count=10)
    node.settle()
    assert (node.state("q").saturation.saturated, node.state("q").saturation.epoch) == (True, epoch + 1)
    gauge = node.gauges.queue_read(node.queue("q").slot)
    assert gauge is not None and (gauge.saturated, gauge.marks.stop_count, gauge.flow_epoch) == (True, 10, epoch + 1)
    publish(client, 5)
    node.settle()
    assert depth(node) == 30 and client.connection.channels[1].held_by is not None
    set_policy(node, flow_stop_count=20, flow_resume_count=20)
    node.settle()
    assert depth(node) == 30 and node.state("q").saturation.epoch == epoch + 1
    set_policy(node, flow_stop_count=40, flow_resume_count=30)
    node.settle()
    assert depth(node) == 35 and node.state("q").saturation.epoch == epoch + 2


def test_withheld_confirms_go_with_the_mark(node: Node, client: Client) -> None:
    set_policy(node, flow_stop_count=4)
    node.declare("q")
    client.call("confirm.select", 1)
    publish(client, 5)
    node.settle()
    assert max((event.delivery_tag for event in client.events[1] if event.name == "basic.ack"), default=0) < 5
    set_policy(node, flow_stop_count=5)
    node.settle()
    assert max((event.delivery_tag for event in client.events[1] if event.name == "basic.ack"), default=0) < 5
    set_policy(node, flow_stop_count=5, flow_resume_count=5)
    node.settle()
    assert max(event.delivery_tag for event in client.events[1] if event.name == "basic.ack") == 5


def test_a_snapshot_brings_other_limits_too(node: Node, client: Client) -> None:
    """A follower that has missed changes starts again from a snapshot, which has queues that it knows."""
    set_policy(node, flow_stop_count=4)
    node.declare("q")
    publish(client, 30)
    node.settle()
    set_policy(node)
    for incarnation in (node.acceptors[0], node.shards[0]):
        assert incarnation
        incarnation.changes.clear()
        incarnation.core.load(node.version, node.snapshot())
    node.settle()
    assert depth(node) == 30 and client.connection.channels[1].held_by is None
