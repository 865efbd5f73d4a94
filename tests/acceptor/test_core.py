"""The acceptor among the others: broadcasts, the topology's changes, shards that die and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import bus
from tests.joined import Client, Node
from tests.raw import JAVA

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def open_channel(node: Node, acceptor: int = 0, number: int = 1, **options: object) -> Client:
    client = node.connect(acceptor, **options)  # type: ignore[arg-type]
    client.call("channel.open", number)
    return client


def publish(client: Client, queue: str, count: int, channel: int = 1) -> None:
    for number in range(count):
        client.publish(channel, b"%d" % number, routing_key=queue)


def drain(client: Client, queue: str, count: int) -> None:
    """Take so many messages off a queue, by a channel of its own."""
    for _ in range(count):
        client.send("basic.get", 1, queue=queue, no_ack=True)


# Broadcasts are hints: what is so stands in the gauges


def test_a_late_stop_stops_nobody(node: Node) -> None:
    record = node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 4)
    client.read()
    node.finish(0)
    assert node.core(0).inlets[record.queue_id].room()[0] < 4
    publish(client, "q", 4)
    client.read()
    assert client.connection.channels[1].inbox
    node.core(0).receive(0, 0, [[bus.FLOW, record.queue_id, True, 7]], [])
    assert client.connection.channels[1].held_by is None
    node.settle()
    assert "channel.flow" in client.names(1)


def test_a_late_resume_gives_no_confirm_away(node: Node) -> None:
    record = node.declare("q", **FLOW)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    node.settle(1)
    assert node.gauges.saturated(record.slot)
    told = [event.delivery_tag for event in client.events[1]]
    assert max(told, default=0) < 5
    node.core(0).receive(0, 0, [[bus.FLOW, record.queue_id, False, 1]], [])
    node.settle()
    assert [event.delivery_tag for event in client.events[1]] == told
    drain(open_channel(node), "q", 5)
    node.settle(1)
    assert client.events[1][-1].delivery_tag == 5


def test_who_waits_is_told_though_the_stop_was_lost(node: Node) -> None:
    node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 16)
    client.read()
    node.finish(0)
    while node.send_up(0, 0):
        node.finish_shard(0)
        node.send_down(0, 0, flow="lost")
        node.finish(0)
    assert node.state("q").saturation.saturated
    node.recheck(0)
    node.finish(0)
    assert client.take("channel.flow", 1).active is False
    assert client.take("connection.blocked")
