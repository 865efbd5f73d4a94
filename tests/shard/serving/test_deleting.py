"""Deletion of a queue: the router decides, every requester is answered, and only then are its consumers cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shard.steps import publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.mark.parametrize("end", ["basic.cancel", "channel.close", "connection lost", "acceptor died"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(node: Node, end: str) -> None:
    """The router decides; until it has answered, nobody new may consume."""
    node.ask("queue_declare", name="q", auto_delete=True)
    first, second = open_channel(node), open_channel(node)
    for client in first, second:
        client.call("basic.consume", 1, queue="q", consumer_tag="c")
    first.call("basic.cancel", 1, consumer_tag="c")
    assert node.router.topology.queue("/", "q")
    match end:
        case "basic.cancel":
            second.call("basic.cancel", 1, consumer_tag="c")
        case "channel.close":
            second.call("channel.close", 1)
        case "connection lost":
            second.lose()
        case "acceptor died":
            node.kill_acceptor(0)
    node.settle()
    assert node.router.topology.queue("/", "q") is None
    assert not node.shard(0).state.queues


def test_an_auto_delete_queue_that_was_never_consumed_from_stays(node: Node) -> None:
    node.ask("queue_declare", name="q", auto_delete=True)
    client = open_channel(node)
    client.send("basic.get", 1, queue="q")
    client.call("channel.close", 1)
    node.settle()
    assert node.router.topology.queue("/", "q")


def test_consumers_are_told_that_their_queue_has_gone(node: Node) -> None:
    record = node.declare("q")
    reported, untold = open_channel(node), node.connect(capabilities={})
    untold.call("channel.open", 1)
    for client in reported, untold:
        client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(reported, "q", b"1", b"2")
    node.settle()
    node.ask("queue_delete", queue_id=record.queue_id)
    node.settle()
    assert reported.take("basic.cancel", 1).consumer_tag == "c"
    assert "basic.cancel" not in untold.names(1)
    reported.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert "channel.close" not in reported.names(1)


def names(client: Client) -> list[str]:
    return [event.name for event in client.events[1]]


def test_who_deletes_a_queue_is_answered_before_its_consumers_are_told(node: Node) -> None:
    """As in RabbitMQ, though the change published by the router arrives before its answer."""
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    client.send("queue.delete", 1, queue="q")
    node.settle()
    assert names(client) == ["queue.delete-ok", "basic.cancel"]


def test_two_who_delete_a_queue_at_once_are_both_answered_first(node: Node) -> None:
    """The second asks while the router decides, the third when the queue is gone but the first has no answer yet."""
    node.declare("q")
    clients = [open_channel(node) for _ in range(3)]
    for client in clients:
        client.call("basic.consume", 1, queue="q")
    publish(clients[0], "q", b"m")
    incarnation = node.shards[0]
    assert incarnation is not None
    for client in clients:
        if client is clients[2]:
            assert node.change(incarnation)
            assert not node.shard(0).state.queues
        client.send("queue.delete", 1, queue="q")
        client.read()
        node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
    node.settle()
    for client in clients:
        assert names(client)[-2:] == ["queue.delete-ok", "basic.cancel"]
    assert not node.shard(0).state.queues


def test_a_queue_that_the_router_does_not_delete_stays(node: Node) -> None:
    """Every requester gets the reason, no consumer is cancelled, and the queue can be consumed and deleted again."""
    node.declare("q")
    consumer, *clients = (open_channel(node) for _ in range(3))
    consumer.call("basic.consume", 1, queue="q")
    for client in clients:
        client.send("queue.delete", 1, queue="q")
        client.read()
    node.finish(0)
    node.send_up(0, 0)
    requests, node.shard(0).state.router_requests = node.shard(0).state.router_requests, []
    [(_, _, answered)] = requests
    answered(None, [406, "cannot"])
    node.settle()
    for client in clients:
        assert client.take("channel.close", 1).text == "PRECONDITION_FAILED - cannot"
    consumer.call("basic.consume", 1, queue="q")
    assert "basic.cancel" not in names(consumer)
    consumer.call("queue.delete", 1, queue="q")
    assert not node.shard(0).state.queues


def test_consumers_are_told_of_a_queue_that_went_another_way_while_its_deletion_failed(node: Node) -> None:
    node.declare("q")
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.consume", 1, queue="q", consumer_tag="c")
    client.send("queue.delete", 1, queue="q")
    client.read()
    node.finish(0)
    node.send_up(0, 0)
    requests, node.shard(0).state.router_requests = node.shard(0).state.router_requests, []
    [(_, _, answered)] = requests
    node.ask("queue_delete", queue_id=node.queue("q").queue_id)
    node.settle()
    answered(None, [406, "cannot"])
    node.settle()
    assert consumer.take("basic.cancel", 1).consumer_tag == "c"
    assert client.take("channel.close", 1).code == 406
    assert not node.shard(0).state.queues
