"""What a shard does with what acceptors ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.joined import Client, Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_a_queue_that_goes_makes_room_in_memory() -> None:
    """Nobody else has to touch the shard for those who wait for its memory to be let in."""
    with Node(memory_limit=100_000) as node:
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
    """All of them in one read: one batch."""
    for body in bodies:
        client.publish(1, body, routing_key=queue)
    client.read()


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(count)]


def outcomes(client: Client) -> tuple[set[int], set[int]]:
    """(acked, nacked) tags of the first channel."""
    acked: set[int] = set()
    nacked: set[int] = set()
    for event in client.events[1]:
        if event.name in ("basic.ack", "basic.nack"):
            first = 1 if event.multiple else event.delivery_tag
            tags = set(range(first, event.delivery_tag + 1)) - acked - nacked
            (acked if event.name == "basic.ack" else nacked).update(tags)
    return acked, nacked


def taken(client: Client, queue: str) -> list[bytes]:
    """Bodies of all that is ready."""
    bodies = []
    while True:
        client.send("basic.get", 1, queue=queue, no_ack=True)
        client.node.settle()
        if "basic.get-empty" in client.names(1):
            client.take("basic.get-empty", 1)
            return bodies
        bodies.append(client.take("basic.get-ok", 1).body)


# Limits that are no marks


def test_what_a_queue_refuses_of_a_batch_is_told(node: Node) -> None:
    node.declare("q", **{"x-max-length": 5, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *numbered(8))
    node.settle()
    assert outcomes(client) == ({1, 2, 3, 4, 5}, {6, 7, 8})
    assert taken(client, "q") == numbered(5)


def test_consumers_make_room_while_a_batch_enters(node: Node) -> None:
    node.declare("q", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=3)
    consumer.call("basic.consume", 1, queue="q")
    client.call("confirm.select", 1)
    publish(client, "q", *numbered(8))
    node.settle()
    assert outcomes(client) == ({1, 2, 3, 4, 5}, {6, 7, 8})


def test_a_limit_in_bytes_refuses_within_a_batch(node: Node) -> None:
    """Each message that would exceed the limit is refused; a smaller one behind it may still fit."""
    node.declare("q", **{"x-max-length-bytes": 1000, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *(bytes(size) for size in (400, 500, 200, 150, 100, 1, 0, 5000)))
    node.settle()
    assert outcomes(client) == ({1, 2, 5, 7}, {3, 4, 6, 8})
    assert node.state("q").contents.ready_bytes == 1000


def test_both_limits_refuse(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-max-length-bytes": 100, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", bytes(90), bytes(20), b"", b"", b"", bytes(10))
    node.settle()
    assert outcomes(client) == ({1, 3, 4}, {2, 5, 6})


def test_the_oldest_are_dropped(node: Node) -> None:
    node.declare("count", **{"x-max-length": 3})
    node.declare("bytes", **{"x-max-length-bytes": 35})
    client = open_channel(node)
    for queue in "count", "bytes":
        publish(client, queue, *numbered(9, size=9))
    node.settle()
    assert taken(client, "count") == numbered(9, size=9)[-3:]
    assert taken(client, "bytes") == numbered(9, size=9)[-3:]
    gauge = node.gauges.queue_read(node.queue("count").slot)
    assert gauge is not None and gauge.dropped == 6


def test_what_consumers_have_in_hand_is_not_dropped(node: Node) -> None:
    node.declare("q", **{"x-max-length": 2})
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=2)
    consumer.call("basic.consume", 1, queue="q")
    publish(client, "q", *numbered(9))
    node.settle()
    assert [event.body for event in consumer.events[1]] == [b"0", b"1"]
    assert taken(client, "q") == [b"7", b"8"]


# Consumers


def test_an_exclusive_consumer_is_alone(node: Node) -> None:
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


def test_a_cancelled_consumer_keeps_what_it_has_in_hand(node: Node) -> None:
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
    assert (contents.ready, contents.unacked, contents.acked) == (2, 2, 1)
    client.send("basic.ack", 1, delivery_tag=4, multiple=True)
    node.settle()
    assert not node.shard(0).state.links[b"acceptor.0.1"].consumers
    assert taken(client, "q") == [b"0", b"later"]


def test_get_does_not_take_part_in_prefetch(node: Node) -> None:
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


# Queues that go


# Acceptors that die


def test_what_a_dead_acceptor_had_in_hand_is_requeued_in_its_place() -> None:
    with Node(acceptors=2) as node:
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
    """The news of a death may overtake the last that the dead had sent."""
    with Node(acceptors=2) as node:
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


# Lives of a shard


def test_flow_epochs_do_not_run_backwards(node: Node) -> None:
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


def test_a_turn_is_held_until_the_shard_knows_what_it_was_routed_by(node: Node) -> None:
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
    assert node.shard(0).state.links[acceptor.identity].taken < 2
    node.settle()
    assert shard.entered(record.queue_id) == [b"1", b"2"]


def test_a_snapshot_in_which_a_queue_has_the_slot_of_one_that_has_moved_away() -> None:
    """The shard has heard of neither move: the slot is the newcomer's when the other one is let go."""
    with Node(shards=2) as node:
        coming, going = node.declare("coming", shard=0), node.declare("going", shard=1)
        node.settle()
        records = [replace(coming, shard=1, slot=going.slot), replace(going, shard=0, slot=coming.slot)]
        changes = [change for change in node.snapshot() if change[0] != "queue"]
        node.shard(1).load(node.version, [*changes, *(record.change() for record in records)])
        node.finish_shard(1)
        gauge = node.gauges.queue_read(going.slot)
        assert gauge is not None and gauge.name == "coming"
        assert [*node.shard(1).state.queues] == [coming.queue_id]
