"""Commits that replace messages of full queues, among joined cores: they pass when there is room in the overshoot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptor.transactions.steps import channel, depths, filled, get
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=1) as node:
        node.declare("full", 0, **{"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2})
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return channel(node)


def consume(node: Node, queue: str) -> None:
    """Have another client take a message from the queue."""
    other = channel(node, tx=False)
    other.send("basic.ack", 1, delivery_tag=get(node, other, queue).delivery_tag)
    node.settle(1)


def test_acks_make_room_for_what_goes_back_to_their_queue(node: Node, client: Client) -> None:
    filled(node)
    tag = get(node, client, "full").delivery_tag
    client.send("basic.ack", 1, delivery_tag=tag)
    client.publish(1, b"again", routing_key="full")
    client.call("tx.commit", 1)
    assert depths(node, "full") == [5]


def test_acks_of_small_messages_make_no_room_for_large_ones(node: Node, client: Client) -> None:
    node.declare("bytes", 0, **{"qpid.flow_stop_size": 2_000, "qpid.flow_resume_size": 1_000})
    publisher = channel(node, tx=False)
    publisher.publish(1, b"s", routing_key="bytes")
    publisher.publish(1, bytes(2_000), routing_key="bytes")
    small = get(node, client, "bytes")
    client.send("basic.ack", 1, delivery_tag=small.delivery_tag)
    client.publish(1, bytes(50_000), routing_key="bytes")
    client.send("tx.commit", 1)
    node.settle(1)
    assert "tx.commit-ok" not in client.names(1)
    assert node.state("bytes").depth_bytes < 3_000

    consume(node, "bytes")
    client.take("tx.commit-ok", 1)


def test_what_is_as_large_as_what_was_acked_goes_back_to_a_queue_full_by_bytes(node: Node, client: Client) -> None:
    node.declare("bytes", 0, **{"qpid.flow_stop_size": 2_000, "qpid.flow_resume_size": 1_000})
    channel(node, tx=False).publish(1, bytes(2_000), routing_key="bytes")
    got = get(node, client, "bytes")
    client.send("basic.ack", 1, delivery_tag=got.delivery_tag)
    client.publish(1, bytes(2_000), routing_key="bytes", headers={"x-retry": 1})
    client.call("tx.commit", 1)
    assert depths(node, "bytes") == [1]


def fill(node: Node) -> None:
    """Declare the queue `bytes` and publish to it until it is saturated."""
    node.declare("bytes", 0, **{"qpid.flow_stop_size": 20_000, "qpid.flow_resume_size": 10_000})
    publisher = channel(node, tx=False)
    for _ in range(8):
        publisher.publish(1, bytes(2_600), routing_key="bytes")
    node.settle(1)


@pytest.fixture
def waiting(node: Node, client: Client) -> Client:
    """Return a client whose commit waits at the saturated queue `bytes`: its acks make room for 900 bytes too few."""
    fill(node)
    return replacing(node, client)


def replacing(node: Node, client: Client) -> Client:
    """Have the client replace a message of the queue `bytes` by a larger one. Return the client; its commit waits."""
    got = get(node, client, "bytes")
    client.send("basic.ack", 1, delivery_tag=got.delivery_tag)
    client.publish(1, bytes(3_500), routing_key="bytes")
    client.send("tx.commit", 1)
    node.settle(1)
    assert "tx.commit-ok" not in client.names(1)
    return client


def test_a_commit_that_waits_for_its_own_acks_goes_once_the_queue_is_lent_room(node: Node, waiting: Client) -> None:
    shard, queue = node.shard(0), node.state("bytes")
    assert shard.flow.lend(queue, shard.state.now)
    shard.state.touch(queue)
    node.settle(1)
    waiting.take("tx.commit-ok", 1)


def test_a_commit_that_waits_for_its_own_acks_goes_once_what_it_lacks_has_left(node: Node, waiting: Client) -> None:
    consume(node, "bytes")
    waiting.take("tx.commit-ok", 1)
    assert node.core(0).gates.queue_gates[node.state("bytes").id].is_saturated()


def test_commits_that_wait_for_their_own_acks_go_in_order(node: Node, waiting: Client) -> None:
    second = replacing(node, channel(node))
    consume(node, "bytes")
    waiting.take("tx.commit-ok", 1)
    assert "tx.commit-ok" not in second.names(1)
    consume(node, "bytes")
    second.take("tx.commit-ok", 1)


def test_a_commit_that_waits_for_its_own_acks_waits_for_its_other_queues(node: Node, client: Client) -> None:
    filled(node)
    client.publish(1, b"x", routing_key="full")
    fill(node)
    replacing(node, client)
    consume(node, "bytes")
    assert "tx.commit-ok" not in client.names(1)
    for _ in range(3):
        consume(node, "full")
    client.take("tx.commit-ok", 1)


def test_a_channel_that_closes_gives_up_the_commit_that_waits_for_its_own_acks(node: Node, waiting: Client) -> None:
    waiting.call("channel.close", 1)
    consume(node, "bytes")
    assert not node.core(0).services.replacing.waiting
    assert depths(node, "bytes") == [7]
