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


# Queues that go, connections that end


def test_confirms_of_a_deleted_queue_are_given_whatever_its_slot_says(node: Node) -> None:
    """The acceptor may hear of the end before the shard does, and then hear that a full queue took messages in."""
    record = node.declare("q", **FLOW)
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", 5)
    client.read()
    node.finish(0)
    node.ask("queue_delete", queue_id=record.queue_id)
    acceptor = node.acceptors[0]
    assert acceptor is not None and node.change(acceptor)
    node.send_up(0, 0)
    node.finish_shard(0)
    assert node.gauges.saturated(record.slot)
    node.send_down(0, 0)
    node.settle(1)
    assert client.events[1][-1].delivery_tag == 5


def test_exclusive_queues_go_with_a_connection_that_was_closed_for_an_error(node: Node) -> None:
    client = open_channel(node)
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    client.send("basic.qos", 7)
    node.settle()
    assert client.take("connection.close").code == 504
    client.send("connection.close-ok")
    node.settle()
    assert client.socket.closed
    client.lose()
    node.settle()
    assert node.router.topology.queue("/", "mine") is None


def test_exclusive_queues_go_before_close_is_answered(node: Node) -> None:
    client = open_channel(node)
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    client.call("connection.close")
    assert node.router.topology.queue("/", "mine") is None
    client.lose()
    assert not node.core(0).router_requests


def test_nothing_follows_a_channel_close_but_its_answer(node: Node) -> None:
    """A held client that made a mistake is not told to go on: late methods on a closed channel break clients."""
    node.declare("q", **FLOW)
    client = open_channel(node, properties=JAVA)
    publish(client, "q", 16)
    node.settle(1)
    client.take("channel.flow", 1)
    client.send("basic.ack", 1, delivery_tag=99)
    node.settle(1)
    assert client.names(1)[-1] == "channel.close"


@pytest.mark.parametrize("loss", ["unbound", "queue deleted", "exchange deleted", "snapshot"])
def test_who_waits_for_a_queue_that_is_not_on_the_way_any_more_goes_on(node: Node, loss: str) -> None:
    full = node.declare("full", **FLOW)
    node.declare("free")
    node.bind("x", "full", "free")
    client = open_channel(node)
    for _ in range(9):
        client.publish(1, b"", exchange="x")
    client.publish(1, b"", routing_key="free")
    node.settle(2)
    assert (node.state("full").depth, node.state("free").depth) == (5, 5)
    match loss:
        case "unbound":
            node.ask("queue_unbind", queue="full", source="x")
        case "queue deleted":
            node.ask("queue_delete", queue_id=full.queue_id)
        case "exchange deleted":
            node.ask("exchange_delete", name="x")
        case "snapshot":
            node.router.done("queue_unbind", queue="full", source="x")
            node.router.recorded.clear()
            node.core(0).load(node.version, node.snapshot())
    node.settle()
    if loss == "exchange deleted":
        assert client.take("channel.close", 1).code == 404
    else:
        assert node.state("free").depth == 10
