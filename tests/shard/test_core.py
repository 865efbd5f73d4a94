"""Requests of acceptors, as a shard's core carries them out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.books import BookedNode
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import open_channel


@pytest.fixture
def node() -> Iterator[BookedNode]:
    with BookedNode() as node:
        yield node


def test_a_queue_that_goes_makes_room_in_memory() -> None:
    """The deletion alone lets in the publishes that wait for the shard's memory."""
    with BookedNode(memory_limit=100_000) as node:
        full, other = node.declare("full"), node.declare("other")
        client = open_channel(node)
        for _ in range(20):
            client.publish(1, bytes(9000), routing_key="full")
        node.settle(1)
        assert node.gauges.saturated(0)
        client.publish(1, b"waits", routing_key="other")
        node.settle(1)
        assert node.state("other").depth == 0
        node.ask("queue_delete", queue_id=full.queue_id)
        node.settle()
        assert not node.gauges.saturated(0)
        gauge = node.gauges.queue_read(0)
        assert gauge is not None and gauge.ready_bytes == node.shard(0).state.weight
        assert node.gauges.depth_count(other.slot) == 1


def publish(client: Client, queue: str, *bodies: bytes) -> None:
    """Publish all bodies in one read: one batch."""
    for body in bodies:
        client.publish(1, body, routing_key=queue)
    client.read()


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(count)]


def taken(client: Client, queue: str) -> list[bytes]:
    """Return the bodies of all ready messages."""
    bodies = []
    while True:
        client.send("basic.get", 1, queue=queue, no_ack=True)
        client.node.settle()
        if "basic.get-empty" in client.names(1):
            client.take("basic.get-empty", 1)
            return bodies
        bodies.append(client.take("basic.get-ok", 1).body)


# Consumers


def test_an_exclusive_consumer_is_alone(node: BookedNode) -> None:
    node.declare("q")
    first, second = open_channel(node), open_channel(node)
    first.call("basic.consume", 1, queue="q", exclusive=True, consumer_tag="c")
    second.send("basic.consume", 1, queue="q")
    node.settle()
    refused = second.take("channel.close", 1)
    assert (refused.code, refused.text) == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
    second.send("channel.close-ok", 1)
    second.call("channel.open", 1)
    first.call("basic.cancel", 1, consumer_tag="c")
    second.call("basic.consume", 1, queue="q")
    first.send("basic.consume", 1, queue="q", exclusive=True)
    node.settle()
    assert first.take("channel.close", 1).code == 403


def test_a_cancelled_consumer_keeps_what_it_has_in_hand(node: BookedNode) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(client, "q", *numbered(4))
    node.settle()
    client.call("basic.cancel", 1, consumer_tag="c")
    publish(client, "q", b"later")
    client.send("basic.nack", 1, delivery_tag=1, requeue=True)
    client.send("basic.ack", 1, delivery_tag=2)
    node.settle()
    contents = node.state("q").contents
    assert (contents.ready, contents.unacked, contents.totals.acked) == (2, 2, 1)
    client.send("basic.ack", 1, delivery_tag=4, multiple=True)
    node.settle()
    assert not node.shard(0).state.links[b"acceptor.0.1"].consumers
    assert taken(client, "q") == [b"0", b"later"]


def test_get_does_not_take_part_in_prefetch(node: BookedNode) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=1, global_=True)
    publish(client, "q", *numbered(3))
    for left in 2, 1, 0:
        client.send("basic.get", 1, queue="q")
        node.settle()
        event = client.take("basic.get-ok", 1)
        assert (event.body, event.messages, event.redelivered) == (b"%d" % (2 - left), left, False)
    assert node.state("q").contents.unacked == 3
    client.call("channel.close", 1)
    client.call("channel.open", 1)
    client.send("basic.get", 1, queue="q")
    node.settle()
    assert client.take("basic.get-ok", 1).redelivered


# Deleted queues


# Dead acceptors


def test_what_a_dead_acceptor_had_in_hand_is_requeued_in_its_place() -> None:
    with BookedNode(acceptors=2) as node:
        node.declare("q")
        dying, other = open_channel(node, 0), open_channel(node, 1)
        dying.call("basic.qos", 1, prefetch_count=3)
        dying.call("basic.consume", 1, queue="q")
        publish(other, "q", *numbered(6))
        node.settle()
        dying.send("basic.ack", 1, delivery_tag=2)
        node.settle()
        node.kill_acceptor(0)
        node.settle()
        assert len(node.state("q").ring) == 0
        assert taken(other, "q") == [b"0", b"2", b"3", b"4", b"5"]


def test_a_turn_that_outlives_its_acceptor_leaves_nothing_behind() -> None:
    """The news of a death may overtake the last turn of the dead acceptor."""
    with BookedNode(acceptors=2) as node:
        node.declare("q")
        dying, other = open_channel(node, 0), open_channel(node, 1)
        dying.send("basic.consume", 1, queue="q")
        dying.read()
        node.finish(0)
        node.kill_acceptor(0)
        assert node.mourn(0)
        assert node.send_up(0, 0, last=True)
        publish(other, "q", b"m")
        node.settle()
        assert [*node.shard(0).state.links] == [b"acceptor.1.1"]
        assert taken(other, "q") == [b"m"]
        node.start_acceptor(0)
        assert taken(open_channel(node, 0), "q") == []
        assert b"acceptor.0.2" in node.shard(0).state.links


# Incarnations of a shard


def test_flow_epochs_do_not_run_backwards(node: BookedNode) -> None:
    """A shard goes on counting where the slot's last writer left off (gauges.md)."""
    record = node.declare("q", **{"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2})
    client = open_channel(node)
    publish(client, "q", *numbered(5))
    node.settle()
    assert taken(client, "q") == numbered(5)
    assert node.gauges.flow_epoch(record.slot) == 2
    node.kill_shard(0)
    node.settle()
    node.start_shard(0)
    node.settle()
    assert node.gauges.flow_epoch(record.slot) == 2
    publish(client, "q", *numbered(5))
    node.settle()
    assert node.gauges.flow_epoch(record.slot) == 3


def test_a_turn_is_held_until_the_shard_knows_what_it_was_routed_by(node: BookedNode) -> None:
    client = open_channel(node)
    record = node.declare("q")
    acceptor, shard = node.acceptors[0], node.shards[0]
    assert acceptor is not None and shard is not None
    node.change(acceptor)
    node.change(acceptor)
    for body in b"1", b"2":
        publish(client, "q", body)
        node.finish(0)
    node.send_up(0, 0)
    node.send_up(0, 0)
    assert node.shard(0).state.links[acceptor.identity].received < 2
    node.settle()
    assert shard.entered(record.queue_id) == [b"1", b"2"]
