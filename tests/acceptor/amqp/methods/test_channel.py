"""Class channel: flow from the client, its answer to the broker's flow, and the end of a channel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel, parked

MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q", **MARKS)
        yield node


def publish(client: Client, count: int) -> None:
    for number in range(count):
        client.publish(1, b"%d" % number, routing_key="q")
    client.node.settle()


def stopped(node: Node) -> Client:
    """Return a client that honours Channel.Flow and was stopped by it."""
    client = open_channel(node, properties=JAVA)
    publish(client, 6)
    node.settle(1)
    assert client.take("channel.flow", 1).active is False
    return client


def test_nothing_is_delivered_after_flow_ok_has_said_so() -> None:
    """Deliveries that the shard sent earlier precede flow-ok (AMQP 0-9-1, 1.5.2.3)."""
    with Node(acceptors=2) as node:
        node.declare("q")
        client, publisher = node.connect(0), node.connect(1)
        for each in client, publisher:
            each.call("channel.open", 1)
        client.call("basic.consume", 1, queue="q", no_ack=True)
        client.send("channel.flow", 1, active=False)
        client.read()
        node.finish(0)
        publisher.publish(1, b"early", routing_key="q")
        publisher.read()
        node.finish(1)
        node.send_up(1, 0)
        node.finish_shard(0)
        node.settle()
        publisher.publish(1, b"late", routing_key="q")
        node.settle()
        assert client.names(1) == ["basic.deliver", "channel.flow-ok"]
        client.call("channel.flow", 1, active=True)
        assert client.names(1) == ["basic.deliver", "channel.flow-ok", "basic.deliver"]


@pytest.mark.parametrize("answer", ["channel.flow-ok", "channel.flow"])
def test_either_method_answers_the_brokers_flow(node: Node, answer: str) -> None:
    """php-amqplib answers with channel.flow, which must then not stop its deliveries."""
    client = stopped(node)
    channel = client.connection.channels[1]
    assert channel.notices.compliance.due == 1
    client.send(answer, 1, active=False)
    node.settle()
    assert channel.notices.compliance.due == 0
    assert channel.receiving.active
    assert "channel.flow-ok" not in client.names(1)


def test_a_client_that_was_not_stopped_is_answered_and_gets_nothing_more(node: Node) -> None:
    client = open_channel(node, properties=JAVA)
    client.call("basic.consume", 1, queue="q")
    assert client.call("channel.flow", 1, active=False).active is False
    publish(client, 1)
    assert "basic.deliver" not in client.names(1)
    client.call("basic.cancel", 1, consumer_tag=next(iter(client.connection.channels[1].consumers)))
    client.call("basic.consume", 1, queue="q")
    assert "basic.deliver" not in client.names(1)  # a consumer that starts later gets nothing either
    assert client.call("channel.flow", 1, active=True).active is True
    assert client.take("basic.deliver", 1).body == b"0"


def test_a_closed_channel_is_answered_its_number_is_free_and_its_parked_publishes_are_kept(node: Node) -> None:
    client = open_channel(node)
    publish(client, 8)
    waiting = parked(client.connection.channels[1])
    assert waiting
    client.call("channel.close", 1)
    assert 1 not in client.connection.channels
    (orphan,) = node.core(0).orphans.channels
    assert parked(orphan) == waiting
    client.call("channel.open", 1)
