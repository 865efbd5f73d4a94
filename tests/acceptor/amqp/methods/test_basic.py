"""Class basic: the limits of qos, consumers and their tags, gets, and the requeueing of recover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def publish(client: Client, count: int, queue: str = "q") -> None:
    for number in range(count):
        client.publish(1, b"%d" % number, routing_key=queue)
    client.node.settle()


def refusal(client: Client, channel: int = 1) -> tuple[int, str]:
    """Return the code and text of the error that closed a channel, or (0) the connection."""
    client.node.settle()
    closed = client.take("channel.close" if channel else "connection.close", channel)
    return closed.code, closed.text


# basic.qos


@pytest.mark.parametrize(("product", "running"), [("py-amqp", True), ("pika", False)])
@pytest.mark.parametrize("queue", ["a", "b"])
def test_a_limit_without_global_and_consumers_that_run(product: str, running: bool, queue: str) -> None:
    """A limit without global applies to running consumers for clients that expect this; for others as in RabbitMQ."""
    with Node(shards=2) as node:
        node.declare(queue, int(queue == "b"))
        client = node.connect(properties={"product": product})
        client.call("channel.open", 1)
        client.call("basic.qos", 1, prefetch_count=1)
        client.call("basic.consume", 1, queue=queue, consumer_tag="first")
        for number in range(9):
            client.publish(1, b"%d" % number, routing_key=queue)
        node.settle()
        assert client.names(1).count("basic.deliver") == 1
        client.call("basic.qos", 1, prefetch_count=4)
        node.settle()
        assert client.names(1).count("basic.deliver") == (4 if running else 1)
        client.call("basic.qos", 1, prefetch_count=2)
        client.send("basic.ack", 1, delivery_tag=1)
        node.settle()
        assert client.names(1).count("basic.deliver") == (4 if running else 2)
        client.call("basic.consume", 1, queue=queue, consumer_tag="second")
        node.settle()
        assert client.names(1).count("basic.deliver") == (6 if running else 4)


@pytest.mark.parametrize(("asked", "sent"), [(None, 3), (0, 3), (2, 2), (10, 3)])
def test_the_node_has_a_limit_for_each_consumer(asked: int | None, sent: int) -> None:
    with Node(amqp={"prefetch_max": 3}) as node:
        node.declare("q")
        client = node.connect()
        client.call("channel.open", 1)
        if asked is not None:
            client.call("basic.qos", 1, prefetch_count=asked)
        client.call("basic.consume", 1, queue="q")
        for _ in range(5):
            client.publish(1, b"", routing_key="q")
        node.settle()
        assert client.names(1).count("basic.deliver") == sent


def test_a_prefetch_size_is_not_implemented(client: Client) -> None:
    client.send("basic.qos", 1, prefetch_size=10)
    assert refusal(client, 0) == (540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")


# basic.consume and basic.cancel


def test_made_up_consumer_tags_differ(node: Node, client: Client) -> None:
    tags = [client.call("basic.consume", 1, queue="q").consumer_tag for _ in range(3)]
    assert all(tag.startswith("amq.ctag-") for tag in tags) and len(set(tags)) == 3
    assert set(client.connection.channels[1].consumers) == set(tags)


def test_a_consumer_tag_is_used_once_at_a_time(client: Client) -> None:
    client.call("basic.consume", 1, queue="q", consumer_tag="t")
    client.call("basic.cancel", 1, consumer_tag="t")
    client.call("basic.consume", 1, queue="q", consumer_tag="t")
    client.send("basic.consume", 1, queue="q", consumer_tag="t")
    assert refusal(client, 0) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 't'")


def test_the_consumers_of_a_channel_are_limited() -> None:
    with Node(amqp={"consumers_per_channel": 2}) as node:
        node.declare("q")
        client = open_channel(node)
        for tag in ("a", "b"):
            client.call("basic.consume", 1, queue="q", consumer_tag=tag)
        client.call("basic.cancel", 1, consumer_tag="a")
        client.call("basic.consume", 1, queue="q", consumer_tag="c")
        client.send("basic.consume", 1, queue="q", consumer_tag="d")
        assert refusal(client, 0) == (530, "NOT_ALLOWED - reached maximum (2) of consumers per channel")


def test_a_consumer_that_the_shard_refuses_leaves_nothing_behind(node: Node, client: Client) -> None:
    open_channel(node).call("basic.consume", 1, queue="q", exclusive=True)
    client.send("basic.consume", 1, queue="q")
    assert refusal(client) == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
    assert len(node.core(0).delivery.consumers) == 1
    assert len(node.state("q").ring) == 1


def test_a_cancelled_consumer_gets_nothing_more_and_keeps_its_deliveries(node: Node, client: Client) -> None:
    client.call("basic.consume", 1, queue="q", consumer_tag="t")
    publish(client, 1)
    client.call("basic.cancel", 1, consumer_tag="t")
    publish(client, 1)
    assert client.names(1) == ["basic.deliver"]
    assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (1, 1)
    assert not node.core(0).delivery.consumers
    client.call("basic.cancel", 1, consumer_tag="unknown")


def test_without_an_answer_wanted_there_is_none(node: Node, client: Client) -> None:
    client.send("basic.consume", 1, queue="q", consumer_tag="t", nowait=True)
    node.settle()
    assert len(node.state("q").ring) == 1
    client.send("basic.cancel", 1, consumer_tag="t", nowait=True)
    node.settle()
    assert not node.state("q").ring
    assert not client.names(1)


# basic.get


def test_a_get_says_how_many_messages_remain(node: Node, client: Client) -> None:
    publish(client, 2)
    for body, remaining in ((b"0", 1), (b"1", 0)):
        client.send("basic.get", 1, queue="q")
        node.settle()
        got = client.take("basic.get-ok", 1)
        assert (got.body, got.messages, got.redelivered) == (body, remaining, False)
    client.send("basic.get", 1, queue="q")
    node.settle()
    client.take("basic.get-empty", 1)


@pytest.mark.parametrize("no_ack", [False, True])
def test_gets_share_the_tags_of_deliveries_and_are_unacked_unless_no_ack(
    node: Node, client: Client, no_ack: bool
) -> None:
    client.call("basic.consume", 1, queue="q")
    publish(client, 1)
    node.declare("other")
    publish(client, 1, "other")
    client.send("basic.get", 1, queue="other", no_ack=no_ack)
    node.settle()
    assert client.take("basic.get-ok", 1).delivery_tag == 2
    assert node.state("other").contents.unacked == int(not no_ack)
    assert client.connection.channels[1].unacked.total == 2 - no_ack


# basic.recover


@pytest.mark.parametrize(("method", "answers"), [("basic.recover", ["basic.recover-ok"]), ("basic.recover-async", [])])
def test_recover_requeues_the_unacked_messages_of_the_channel_alone(
    node: Node, client: Client, method: str, answers: list[str]
) -> None:
    client.call("channel.open", 2)
    publish(client, 3)
    for channel in (1, 1, 2):
        client.send("basic.get", channel, queue="q")
    node.settle()
    client.events[1].clear()
    client.send(method, 1, requeue=True)
    node.settle()
    assert client.names(1) == answers
    assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (2, 1)
    client.send("basic.get", 1, queue="q")
    node.settle()
    got = client.take("basic.get-ok", 1)
    assert (got.body, got.redelivered) == (b"0", True)


@pytest.mark.parametrize("method", ["basic.recover", "basic.recover-async"])
def test_recover_to_the_same_consumer_is_not_implemented(client: Client, method: str) -> None:
    client.send(method, 1, requeue=False)
    assert refusal(client, 0) == (540, "NOT_IMPLEMENTED - requeue=false")
