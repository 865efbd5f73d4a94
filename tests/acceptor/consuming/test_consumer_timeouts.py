"""Deliveries not acknowledged in time (RabbitMQ's consumer timeout)."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.consuming.consumer_timeouts import INTERVAL
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout value used: {ms} ms. "
    "This timeout value can be configured, see consumers doc guide to learn more"
)


def consuming(node: Node, queue: str, channel: int = 1, no_ack: bool = False, **arguments: Any) -> Client:
    """Return a client that was sent one message from a queue."""
    node.declare(queue, **arguments)
    client = node.connect()
    client.call("channel.open", channel)
    client.call("basic.consume", channel, queue=queue, no_ack=no_ack)
    send(node, client, channel, queue)
    return client


def send(node: Node, client: Client, channel: int, queue: str) -> None:
    client.publish(channel, b"", routing_key=queue)
    node.settle()
    client.take("basic.deliver", channel)


def wait(node: Node, seconds: float) -> None:
    """Let time pass, a second at a time."""
    core = node.core(0)
    end = node.now + seconds
    while node.now < end:
        node.now += 1
        core.state.now = node.now
        core.tick()
    node.settle()


def test_a_channel_is_closed_that_does_not_acknowledge() -> None:
    with Node() as node:
        client = consuming(node, "q", channel=3)
        wait(node, 1800 - INTERVAL)
        assert client.names(3) == []
        wait(node, 3 * INTERVAL)
        closed = client.take("channel.close", 3)
        assert (closed.code, closed.text) == (406, TEXT.format(channel=3, ms=1800000))
        assert (closed.class_id, closed.method_id) == (0, 0)
        assert node.state("q").contents.ready == 1


def test_who_acknowledges_may_go_on() -> None:
    with Node() as node:
        client = consuming(node, "q")
        for tag in range(1, 5):
            wait(node, 1000)
            client.send("basic.ack", 1, delivery_tag=tag)
            send(node, client, 1, "q")
        assert client.names(1) == []


def test_the_time_of_each_delivery_counts() -> None:
    """Deliveries keep their times when an ack splits their row in two."""
    with Node() as node:
        client = consuming(node, "q")
        for _ in range(3):
            client.publish(1, b"", routing_key="q")
        node.settle()
        wait(node, 1000)
        client.send("basic.ack", 1, delivery_tag=1)
        client.send("basic.ack", 1, delivery_tag=3)
        client.send("basic.ack", 1, delivery_tag=2)
        send(node, client, 1, "q")
        wait(node, 1000)
        assert "channel.close" in client.names(1)


def test_acknowledged_by_consuming_without_acks() -> None:
    with Node() as node:
        client = consuming(node, "q", no_ack=True)
        wait(node, 4000)
        assert client.names(1) == []


def test_gets_count() -> None:
    with Node() as node:
        node.declare("q")
        client = node.connect()
        client.call("channel.open", 1)
        client.publish(1, b"", routing_key="q")
        client.call("basic.get", 1, queue="q")
        wait(node, 1800 + 2 * INTERVAL)
        assert client.take("channel.close", 1).code == 406


def test_a_queue_may_have_a_time_of_its_own() -> None:
    with Node() as node:
        quick = consuming(node, "quick", **{"x-consumer-timeout": 90_000})
        slow = consuming(node, "slow", **{"x-consumer-timeout": 7_200_000})
        wait(node, 90 + 2 * INTERVAL)
        assert quick.take("channel.close", 1).text == TEXT.format(channel=1, ms=90000)
        wait(node, 7200 - 300)
        assert slow.names(1) == []
        wait(node, 300 + INTERVAL)
        assert slow.take("channel.close", 1).text == TEXT.format(channel=1, ms=7200000)


@pytest.mark.parametrize("timeout", [0.0, 8.0])
def test_the_time_of_the_node(timeout: float) -> None:
    with Node(amqp={"consumer_timeout": timeout}) as node:
        client = consuming(node, "q")
        wait(node, 12)
        assert client.names(1) == (["channel.close"] if timeout else [])


@pytest.mark.parametrize("what", ["publish", "ack"])
def test_a_transaction_that_stays_open_ends(what: str) -> None:
    with Node(amqp={"transaction_timeout": 10.0}) as node:
        client = consuming(node, "q")
        client.call("tx.select", 1)
        wait(node, 60)
        if what == "publish":
            client.publish(1, b"", routing_key="q")
        else:
            client.send("basic.ack", 1, delivery_tag=1)
        node.settle()
        wait(node, 8)
        assert client.names(1) == []
        client.call("tx.commit", 1)
        client.publish(1, b"", routing_key="q")
        node.settle()
        wait(node, 20)
        closed = client.take("channel.close", 1)
        text = "PRECONDITION_FAILED - transaction is open for longer than 10 s (amqp.transaction_timeout)"
        assert (closed.code, closed.text) == (406, text)
