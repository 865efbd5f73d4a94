"""A withheld message that leaves its saturated queue is confirmed then, not only when the queue resumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.bus.to_acceptor import Dequeued
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

# The queue stops at the fifth message, and resumes once it is empty.
FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 0}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(1, 2) as node:
        yield node


def publisher(node: Node) -> Client:
    client = open_channel(node)
    client.call("confirm.select", 1)
    return client


def fill(client: Client, queue: str, **properties: Any) -> None:
    """Publish five messages in one turn: the confirms of all are withheld."""
    for number in range(5):
        client.publish(1, b"%d" % number, routing_key=queue, **properties)
    client.read()
    client.node.settle(1)


def acked(client: Client) -> set[int]:
    """Return the acked tags. AssertionError if one was nacked as well."""
    tags: list[int] = []
    for event in client.events[1]:
        if event.name == "basic.ack":
            tags += range(1, event.delivery_tag + 1) if event.multiple else [event.delivery_tag]
    reported = {event.delivery_tag for event in client.events[1] if event.name == "basic.nack"}
    assert not reported & set(tags)
    return set(tags)


def take(client: Client, queue: str, count: int) -> list[int]:
    """Get `count` messages without acking them; return their delivery tags."""
    for _ in range(count):
        client.send("basic.get", 1, queue=queue)
    client.node.settle(1)
    return [client.take("basic.get-ok", 1).delivery_tag for _ in range(count)]


def test_one_that_is_acked_while_its_queue_is_full_is_confirmed(node: Node) -> None:
    node.declare("q", **FLOW)
    client, consumer = publisher(node), open_channel(node)
    fill(client, "q")
    assert acked(client) == set()
    tags = take(consumer, "q", 5)
    consumer.send("basic.ack", 1, delivery_tag=tags[3])
    node.settle(1)
    assert node.state("q").saturation.saturated and acked(client) == {4}
    assert client.connection.channels[1].held_by is not None
    consumer.send("basic.ack", 1, delivery_tag=tags[2], multiple=True)
    node.settle(1)
    assert node.state("q").saturation.saturated and acked(client) == {1, 2, 3, 4}
    consumer.send("basic.ack", 1, delivery_tag=tags[4])
    node.settle(1)
    assert acked(client) == {1, 2, 3, 4, 5} and client.connection.channels[1].held_by is None


def test_one_that_comes_back_is_not(node: Node) -> None:
    node.declare("q", **FLOW)
    client, consumer = publisher(node), open_channel(node)
    fill(client, "q")
    tags = take(consumer, "q", 2)
    consumer.send("basic.nack", 1, delivery_tag=tags[0], requeue=True)
    consumer.send("basic.reject", 1, delivery_tag=tags[1], requeue=False)
    node.settle(1)
    assert acked(client) == {2}


def test_whatever_takes_them_off(node: Node) -> None:
    """Messages leave by a no-ack get, by expiry, or by a purge, which makes the queue resume as well."""
    node.declare("q", **FLOW)
    client, consumer = publisher(node), open_channel(node)
    client.publish(1, b"old", routing_key="q", expiration="1000")
    for _ in range(4):
        client.publish(1, b"m", routing_key="q")
    client.read()
    node.settle(1)
    kept = take(consumer, "q", 1)
    assert acked(client) == set() and kept
    consumer.send("basic.get", 1, queue="q", no_ack=True)
    node.settle(1)
    assert acked(client) == {2}
    consumer.send("basic.nack", 1, delivery_tag=kept[0], requeue=True)
    node.settle(1)
    node.now += 2
    node.settle(1)
    assert node.state("q").saturation.saturated and acked(client) == {1, 2}
    consumer.call("queue.purge", 1, queue="q")
    node.settle(1)
    assert acked(client) == {1, 2, 3, 4, 5}


def test_dead_letters_have_left(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **FLOW, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client, consumer = publisher(node), open_channel(node)
    fill(client, "q")
    tags = take(consumer, "q", 2)
    consumer.send("basic.reject", 1, delivery_tag=tags[1], requeue=False)
    node.settle(1)
    assert node.state("dead").contents.ready == 1 and acked(client) == {2}


def test_what_left_before_the_stop_is_confirmed_too(node: Node) -> None:
    """The message has left when its acceptor receives the report of its turn together with the stop."""
    node.declare("q", **{"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 0})
    client, consumer = publisher(node), open_channel(node)
    client.publish(1, b"first", routing_key="q")
    client.read()
    consumer.send("basic.get", 1, queue="q", no_ack=True)
    consumer.read()
    turn(node)
    assert node.state("q").depth == 0
    for _ in range(41):
        client.publish(1, b"m", routing_key="q")
    client.read()
    turn(node)
    assert node.state("q").saturation.saturated and not client.events[1]
    node.settle(1)
    assert acked(client) == {1}


def turn(node: Node) -> None:
    """Run a turn of the acceptor and one of the shard, whose report is in flight."""
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)


def test_one_in_two_full_queues_waits_for_both(node: Node) -> None:
    """A message on two shards leaves one of them while the other has it, or has not even taken it in."""
    node.policy("share", "", {"flow-share": "0 %"}, "exchanges")
    node.declare("q", 0, **FLOW)
    node.declare("r", 1, **FLOW)
    node.bind("x", "q", "r")
    client, consumer = publisher(node), open_channel(node)
    for number in range(5):
        client.publish(1, b"%d" % number, "x")
    client.read()
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)
    node.send_down(0, 0)
    consumer.send("basic.get", 1, queue="q", no_ack=True)
    consumer.read()
    turn(node)
    node.send_down(0, 0)
    node.settle(1)
    assert node.state("q").saturation.saturated and node.state("r").saturation.saturated and acked(client) == set()
    consumer.take("basic.get-ok", 1)
    tags = take(consumer, "r", 2)
    consumer.send("basic.ack", 1, delivery_tag=tags[1])
    node.settle(1)
    assert acked(client) == set()
    consumer.send("basic.ack", 1, delivery_tag=tags[0])
    node.settle(1)
    assert acked(client) == {1}
    consumer.call("queue.purge", 1, queue="q")
    node.settle(1)
    assert acked(client) == {1, 2}, "the second one has left the one, the other has room"


def test_messages_of_several_priorities(node: Node) -> None:
    node.declare("q", **FLOW, **{"x-max-priority": 5})
    client, consumer = publisher(node), open_channel(node)
    for priority in (1, 3, 1, 3, 1):
        client.publish(1, b"m", routing_key="q", priority=priority)
    client.read()
    node.settle(1)
    for reported in ({2}, {2, 4}, {1, 2, 4}):
        consumer.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(1)
        assert node.state("q").saturation.saturated and acked(client) == reported


def test_it_is_safe_before_it_is_confirmed() -> None:
    """A message that leaves before its shard has written its turn is confirmed once the turn is written."""
    with Node(stores=True) as node:
        node.commits = False
        node.declare("q", durable=True, **FLOW)
        client, consumer = publisher(node), open_channel(node)
        fill(client, "q", delivery_mode=2)
        consumer.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(1)
        assert acked(client) == set()
        written(node)
        assert node.state("q").saturation.saturated and acked(client) == {1}


def written(node: Node) -> None:
    while node.commit_shard(0):
        node.settle()
    node.settle(1)


def test_after_a_death_of_the_shard_the_rest_is_confirmed_at_the_resume() -> None:
    """The next incarnation confirms what it takes in when that leaves; it does not know the publisher of the rest."""
    with Node(stores=True) as node:
        node.declare("q", durable=True, **FLOW)
        client, consumer = publisher(node), open_channel(node)
        fill(client, "q", delivery_mode=2)
        node.kill_shard(0)
        node.start_shard(0)
        node.settle(1)
        tags = take(consumer, "q", 5)
        consumer.send("basic.ack", 1, delivery_tag=tags[0])
        node.settle(1)
        assert node.state("q").saturation.saturated and acked(client) <= {1}
        consumer.send("basic.ack", 1, delivery_tag=tags[4], multiple=True)
        node.settle(1)
        assert acked(client) == {1, 2, 3, 4, 5}


def test_a_dead_acceptor_is_told_nothing() -> None:
    with Node(2) as node:
        node.declare("q", **FLOW)
        client, consumer = publisher(node), open_channel(node, 1)
        fill(client, "q")
        node.kill_acceptor(0)
        node.settle(1)
        link = next(iter(node.shard(0).state.links.values()))
        consumer.send("basic.get", 1, queue="q", no_ack=True)
        node.settle(1)
        assert node.state("q").saturation.saturated and len(node.shard(0).state.links) == 1 and link.source.left == []


def test_nothing_is_kept_once_it_has_resumed(node: Node) -> None:
    node.declare("q", **FLOW)
    client, consumer = publisher(node), open_channel(node)
    fill(client, "q")
    link = node.core(0).links[0]
    assert link.withheld
    consumer.call("queue.purge", 1, queue="q")
    node.settle(2)
    assert not link.withheld and not link.dequeued
    assert all(not each.source.left for each in node.shard(0).state.links.values())


def test_a_report_about_a_queue_that_is_gone_is_no_matter(node: Node) -> None:
    node.declare("q", **FLOW)
    client = publisher(node)
    fill(client, "q")
    node.core(0).receive(0, 0, [Dequeued(4711, [1, 0, 0, 5]), Dequeued(4711, [])], [])
    assert acked(client) == set()
