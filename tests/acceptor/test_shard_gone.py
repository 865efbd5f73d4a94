"""A shard removed from the node: its queues are elsewhere or gone, and nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("stays", shard=0)
        node.declare("goes", shard=1)
        yield node


def channel(node: Node) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    return client


def remove(node: Node) -> None:
    """End shard 1 for good, before it has heard that its queue is deleted."""
    placing = node.router.authority.placing
    placing.drain(1)
    node.ask("queue_delete", queue_id=node.queue("goes").queue_id)
    placing.remove(1)
    node.publish_changes()
    node.kill_shard(1)
    node.settle()
    node.core(0).shard_gone(1)
    node.settle()


def test_what_was_published_to_a_queue_that_is_gone_is_confirmed(node: Node) -> None:
    client = channel(node)
    client.call("confirm.select", 1)
    client.publish(1, b"1", routing_key="goes")
    client.read()
    node.finish(0)
    remove(node)
    assert client.take("basic.ack", 1).delivery_tag == 1
    client.publish(1, b"2", routing_key="stays")
    node.settle()
    assert client.take("basic.ack", 1).delivery_tag == 2


def test_what_was_asked_of_it_is_answered(node: Node) -> None:
    client = channel(node)
    client.send("queue.purge", 1, queue="goes")
    client.read()
    node.finish(0)
    remove(node)
    assert client.take("channel.close", 1).code == 404


def test_nothing_gathers_for_it(node: Node) -> None:
    client = channel(node)
    for queue in ("stays", "goes"):
        client.call("basic.consume", 1, queue=queue)
    remove(node)
    link = node.core(0).links[1]
    for _ in range(3):
        client.call("channel.close", 1, code=200, text="", class_id=0, method_id=0)
        client.call("channel.open", 1)
        client.call("basic.consume", 1, queue="amq.rabbitmq.reply-to", no_ack=True)
    assert (len(link.turn.operations), len(link.sent), link.requests) == (0, 0, {})
    assert not link.turn.contents.settlements
