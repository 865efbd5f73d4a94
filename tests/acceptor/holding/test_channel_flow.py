"""Stops by Channel.Flow: never on a connection with something to settle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}
NET = {"product": "RabbitMQ", "platform": ".NET 8"}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        for name in ("left", "right"):
            node.declare(name, **MARKS)
        yield node


def fill(client: Client, channel: int = 1) -> None:
    for _ in range(30):
        client.publish(channel, b"", routing_key="left")
    client.node.settle()


def connected(node: Node, properties: dict[str, str] = JAVA) -> Client:
    return open_channel(node, properties=properties)


def flows(client: Client, channel: int = 1) -> list[bool]:
    """Remove the events of Channel.Flow that a client was sent; return whether each was active."""
    reported = [event.active for event in client.events[channel] if event.name == "channel.flow"]
    while "channel.flow" in client.names(channel):
        client.take("channel.flow", channel)
    return reported


def test_one_that_only_publishes_is_stopped(node: Node) -> None:
    client = connected(node)
    fill(client)
    assert flows(client) == [False]


def test_our_own_producers_are_stopped_where_it_is_asked_for() -> None:
    with Node() as node:
        node.declare("left", **MARKS, **{"x-throttle": "flow, park"})
        for platform in ("pika", "aiormq"):
            client = connected(node, {"product": "penstock producer", "platform": platform})
            fill(client)
            assert flows(client) == [False]


@pytest.mark.parametrize("means", ["auto", "flow, park, pause"])
@pytest.mark.parametrize("taken", ["consumes", "consumes on another channel", "has got"])
def test_one_that_settles_is_not(taken: str, means: str) -> None:
    with Node() as node:
        node.declare("left", **MARKS, **{"x-throttle": means})
        node.declare("right")
        client = connected(node)
        client.publish(1, b"", routing_key="right")
        node.settle()
        if taken == "has got":
            client.call("basic.get", 1, queue="right")
        else:
            number = 1 if taken == "consumes" else 2
            if number == 2:
                client.call("channel.open", 2)
            client.call("basic.consume", number, queue="right")
        fill(client)
        assert client.connection.channels[1].held_by is not None
        assert flows(client) == []


def test_one_that_consumes_without_acks_is_stopped(node: Node) -> None:
    client = connected(node)
    client.call("basic.consume", 1, queue="right", no_ack=True)
    fill(client)
    assert flows(client) == [False]


@pytest.mark.parametrize("begins", ["basic.consume", "basic.get"])
def test_a_stop_is_taken_back_when_there_is_something_to_settle(node: Node, begins: str) -> None:
    """The client is released early, and not notified again when the queue resumes."""
    client, other = connected(node), connected(node)
    other.publish(1, b"", routing_key="right")
    node.settle()
    client.call("channel.open", 2)
    fill(client)
    assert flows(client) == [False]
    client.send(begins, 2, queue="right")
    node.settle()
    assert flows(client) == [True]
    assert client.connection.channels[1].held_by is not None
    other.call("queue.purge", 1, queue="left")
    node.settle()
    assert client.connection.channels[1].held_by is None
    assert flows(client) == []


def test_a_stop_stays_where_nothing_is_got(node: Node) -> None:
    client = connected(node)
    client.call("channel.open", 2)
    fill(client)
    client.send("basic.get", 2, queue="right")
    node.settle()
    assert flows(client) == [False]


@pytest.mark.parametrize("properties", [JAVA, NET], ids=["Java", ".NET"])
def test_two_that_obey_and_feed_each_other_s_full_queues_go_on(node: Node, properties: dict[str, str]) -> None:
    """Each client publishes one message for each delivery and then acks it, in one thread, but not while stopped."""
    for name in ("left", "right"):
        filler = connected(node, {})
        for _ in range(21):
            filler.publish(1, b"", routing_key=name)
    node.settle()
    peers = {"left": connected(node, properties), "right": connected(node, properties)}
    for source, peer in peers.items():
        peer.call("basic.qos", 1, prefetch_count=5)
        peer.call("basic.consume", 1, queue=source)
    answered, stopped = dict.fromkeys(peers, 0), dict.fromkeys(peers, False)
    for _ in range(200):
        for source, peer in peers.items():
            for active in flows(peer):
                stopped[source] = not active
            while not stopped[source] and "basic.deliver" in peer.names(1):
                tag = peer.take("basic.deliver", 1).delivery_tag
                peer.publish(1, b"", routing_key="right" if source == "left" else "left")
                peer.send("basic.ack", 1, delivery_tag=tag)
                answered[source] += 1
        node.settle(1)
    assert min(answered.values()) > 100, answered
