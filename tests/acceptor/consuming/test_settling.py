"""The departure of settlements to their shard: at once if somebody may wait for them, otherwise a little later."""

from __future__ import annotations

from acceptor.links.outgoing import SETTLING_SECONDS
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


def consuming(node: Node, messages: int, prefetch: int, **arguments: int) -> Client:
    """Return a client that has `messages` unacked messages of queue 'q'."""
    node.declare("q", **arguments)
    client = node.connect()
    client.call("channel.open", 1)
    client.call("basic.qos", 1, prefetch_count=prefetch)
    client.call("basic.consume", 1, queue="q")
    for _ in range(messages):
        client.publish(1, b"", routing_key="q")
    node.settle()
    return client


def leaving(node: Node) -> int:
    """Return how many turns the acceptor's loop would send now."""
    return len(node.core(0).finish_turn())


def test_settlements_that_nobody_waits_for_leave_a_moment_later() -> None:
    with Node() as node:
        client = consuming(node, 3, 100)
        client.send("basic.ack", 1, delivery_tag=1)
        client.read()
        assert leaving(node) == 0
        assert node.core(0).waits()
        node.core(0).state.now += SETTLING_SECONDS
        assert leaving(node) == 1
        assert not node.core(0).waits()


def test_settlements_leave_with_the_next_publish() -> None:
    with Node() as node:
        client = consuming(node, 3, 100)
        client.send("basic.ack", 1, delivery_tag=1)
        client.read()
        assert leaving(node) == 0
        client.publish(1, b"", routing_key="q")
        client.read()
        assert leaving(node) == 1


def test_settlements_leave_at_once_where_the_prefetch_is_half_used() -> None:
    with Node() as node:
        client = consuming(node, 3, 5)
        client.send("basic.ack", 1, delivery_tag=1)
        client.read()
        assert leaving(node) == 1


def test_settlements_leave_at_once_where_the_queue_is_saturated() -> None:
    with Node() as node:
        client = consuming(node, 4, 100, **{"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 1})
        client.send("basic.ack", 1, delivery_tag=1)
        client.read()
        assert leaving(node) == 1
