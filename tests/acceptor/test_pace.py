"""Paced queues: depth stays at the target, producers are let in as messages leave, and are told when they wait."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.watermarks import overshoot_of
from tests.joined import Client, Node, fill_beside
from tests.raw import JAVA


def opened(node: Node, acceptor: int = 0) -> Client:
    client = node.connect(acceptor, properties=JAVA)
    client.call("channel.open", 1)
    return client


def publish(client: Client, count: int) -> None:
    for _ in range(count):
        client.publish(1, b"x", routing_key="q")
    client.node.settle()


def get(node: Node, reader: Client, count: int) -> None:
    for _ in range(count):
        reader.send("basic.get", 1, queue="q", no_ack=True)
    node.settle(rechecks=1)


@pytest.mark.parametrize("acceptors", [1, 3])
def test_a_depth(acceptors: int) -> None:
    with Node(acceptors=acceptors) as node:
        node.declare("q", **{"x-pace-depth": 100})
        clients = [opened(node, index) for index in range(acceptors)]
        reader = opened(node)
        for client in clients:
            publish(client, 1000)
        node.settle(rechecks=3)
        state = node.state("q")
        assert 100 <= state.depth < 100 + acceptors
        depths = []
        for _ in range(20):
            get(node, reader, 30)
            node.settle(rechecks=5)
            depths.append(state.depth)
        assert min(depths) >= 95 and max(depths) < 100 + acceptors
        gate = clients[0].connection.channels[1].held_by
        assert str(gate).endswith("messages, paced to 100")
        assert clients[0].take("channel.flow", 1).active is False


def test_what_another_acceptor_has_under_way_is_bounded() -> None:
    """Its turn is on its way while this one fills the queue."""
    with Node(acceptors=2) as node:
        queue = node.declare("q", **{"x-pace-depth": 1000})
        late, client = opened(node, 1), opened(node)
        for sender in (late, client):
            for _ in range(2000):
                sender.publish(1, b"x", routing_key="q")
        fill_beside(node, queue, late, client)
        assert 1000 <= node.state("q").depth <= 1000 + overshoot_of(1000)


def test_a_stop_mark_holds_all_the_same() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 1000, "x-flow-stop-count": 100})
        client = opened(node)
        publish(client, 300)
        assert node.state("q").depth <= 106
        assert "of 100 messages" in str(client.connection.channels[1].held_by)


def test_a_waiting_time() -> None:
    """Ten messages leave at once, again and again: of so many a second two seconds' worth wait."""
    with Node() as node:
        node.declare("q", **{"x-pace-wait": "2 s"})
        client, reader = opened(node), opened(node)
        publish(client, 3000)
        began = node.now
        for _ in range(100):
            get(node, reader, 10)
        rate = 1000 / (node.now - began)
        assert node.state("q").depth == pytest.approx(2 * rate, rel=0.2)


@pytest.mark.parametrize("after", [{}, {"pace-depth": 500}], ids=str)
def test_who_waits_goes_on_when_the_pace_is_another_or_none(after: dict[str, Any]) -> None:
    with Node() as node:
        node.declare("q")
        node.policy("p", "", {"pace-depth": 10})
        client = opened(node)
        publish(client, 300)
        assert node.state("q").depth == 10
        node.policy("p", "", after or None)
        node.settle(rechecks=1)
        assert node.state("q").depth == 300 and client.connection.channels[1].held_by is None


def test_a_transaction_waits_its_turn() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 10})
        client, other, reader = opened(node), opened(node), opened(node)
        publish(other, 10)
        client.call("tx.select", 1)
        publish(client, 30)
        client.send("tx.commit", 1)
        node.settle()
        assert node.state("q").depth == 10
        get(node, reader, 5)
        assert node.state("q").depth == 35 and client.take("tx.commit-ok", 1)


def test_who_is_held_by_the_pace_is_an_event() -> None:
    with Node() as node:
        node.declare("q", **{"x-pace-depth": 10})
        client = opened(node)
        publish(client, 30)
        node.settle(rechecks=10)
        (event,) = node.core(0).events.records
        assert (event["event"], event["queue"], event["cause"], event["of"]) == ("limited", "q", "pace", "queue")
        assert event["count"] == 10 and "paced to 10" in event["reason"]
        get(node, opened(node), 30)
        node.settle(rechecks=10)
        assert [each["event"] for each in node.core(0).events.records] == ["limited", "unlimited"]
