"""Deliveries in flight to all consumers of a connection are bounded, however many there are."""

from __future__ import annotations

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

KIB = 1024
WINDOW = 64 * KIB
MESSAGE = 10 * KIB
LIMITS = {"connection_window_bytes": WINDOW}
# Messages in the window, and the one that passes whatever its size.
MOST = WINDOW // MESSAGE + 1


def consumers(node: Node, count: int) -> Client:
    """Return a client with consumers on two channels, whose socket accepts nothing from now on."""
    client = node.connect()
    for channel in (1, 2):
        client.call("channel.open", channel)
    node.core(0).delivery.writable(client.connection, False)
    for number in range(count):
        client.send("basic.consume", number % 2 + 1, queue="q", consumer_tag=str(number))
    node.settle()
    return client


def fill(node: Node, count: int) -> None:
    client = node.connect()
    client.call("channel.open", 1)
    for _ in range(count):
        client.publish(1, bytes(MESSAGE), routing_key="q")
    node.settle()


def delivered(client: Client) -> int:
    return sum(client.names(channel).count("basic.deliver") for channel in (1, 2))


def takes(client: Client) -> None:
    """Let the socket accept all that there is for it, then nothing again."""
    delivery = client.node.core(0).delivery
    delivery.writable(client.connection, True)
    client.node.settle()
    delivery.writable(client.connection, False)


@pytest.mark.parametrize("count", [1, 20, 200])
def test_what_is_under_way_does_not_depend_on_how_many_consumers_there_are(count: int) -> None:
    with Node(flow=LIMITS) as node:
        node.declare("q")
        fill(node, 400)
        client = consumers(node, count)
        first = delivered(client)
        assert 1 <= first <= MOST
        for _ in range(400):
            if delivered(client) == 400:
                break
            takes(client)
        assert delivered(client) == 400


def test_other_connections_get_what_one_does_not_take() -> None:
    with Node(flow=LIMITS) as node:
        node.declare("q")
        fill(node, 100)
        stuck = consumers(node, 20)
        good = node.connect()
        good.call("channel.open", 1)
        good.call("basic.consume", 1, queue="q", no_ack=True)
        node.settle()
        assert delivered(stuck) + delivered(good) == 100
        assert delivered(stuck) <= MOST


@pytest.mark.parametrize("how", ["cancel", "channel", "queue"])
def test_who_leaves_with_all_of_it_under_way_leaves_it_to_those_who_stay(how: str) -> None:
    with Node(flow=LIMITS) as node:
        node.declare("q")
        node.declare("other")
        fill(node, 50)
        client = consumers(node, 2)
        before = delivered(client)
        client.send("basic.consume", 2, queue="other", consumer_tag="late")
        publisher = node.connect()
        publisher.call("channel.open", 1)
        publisher.publish(1, b"for who is late", routing_key="other")
        node.settle()
        assert delivered(client) == before
        if how == "cancel":
            client.send("basic.cancel", 1, consumer_tag="0")
            client.send("basic.cancel", 2, consumer_tag="1")
        elif how == "channel":
            client.send("basic.cancel", 2, consumer_tag="1")
            client.send("channel.close", 1)
        else:
            publisher.send("queue.delete", 1, queue="q")
        node.settle()
        bodies = [event.body for event in client.events[2] if event.name == "basic.deliver"]
        assert b"for who is late" in bodies


def test_the_next_incarnation_of_the_shard_begins_with_an_open_window() -> None:
    with Node(flow=LIMITS) as node:
        node.declare("q", durable=True)
        fill(node, 50)
        client = consumers(node, 20)
        assert delivered(client)
        node.kill_shard(0)
        node.start_shard(0)
        node.settle()
        before = delivered(client)
        fill(node, 20)
        for _ in range(20):
            takes(client)
        assert delivered(client) == before + 20
        assert client.connection.unreported <= WINDOW // 8
