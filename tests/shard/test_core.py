"""What a shard does with what acceptors ask of it."""

from __future__ import annotations

from collections.abc import Iterator

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


def test_conditions_of_a_delete(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    other = node.connect()
    for channel, condition, text in (1, "if_unused", "in use"), (2, "if_empty", "not empty"):
        if condition == "if_empty":
            client.call("basic.cancel", 1, consumer_tag="c")
            publish(client, "q", b"m")
        other.call("channel.open", channel)
        other.send("queue.delete", channel, queue="q", **{condition: True})
        node.settle()
        refused = other.take("channel.close", channel)
        assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - queue 'q' in vhost '/' {text}")
    assert client.call("queue.delete", 1, queue="q").messages == 1
    assert client.call("queue.delete", 1, queue="q").messages == 0


def test_consumers_are_told_that_their_queue_has_gone(node: Node) -> None:
    record = node.declare("q")
    told, untold = open_channel(node), node.connect(capabilities={})
    untold.call("channel.open", 1)
    for client in told, untold:
        client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(told, "q", b"1", b"2")
    node.settle()
    node.ask("queue_delete", queue_id=record.queue_id)
    node.settle()
    assert told.take("basic.cancel", 1).consumer_tag == "c"
    assert "basic.cancel" not in untold.names(1)
    told.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert "channel.close" not in told.names(1)


def names(client: Client) -> list[str]:
    return [event.name for event in client.events[1]]


def test_who_deletes_a_queue_is_answered_before_its_consumers_are_told(node: Node) -> None:
    """As with RabbitMQ, though the change that the router publishes is quicker than its answer."""
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    client.send("queue.delete", 1, queue="q")
    node.settle()
    assert names(client) == ["queue.delete-ok", "basic.cancel"]


def test_two_who_delete_a_queue_at_once_are_both_answered_first(node: Node) -> None:
    """The second asks while the router is asked, a third when the queue has gone but the first has no answer yet."""
    node.declare("q")
    clients = [open_channel(node) for _ in range(3)]
    for client in clients:
        client.call("basic.consume", 1, queue="q")
    publish(clients[0], "q", b"m")
    life = node.shards[0]
    assert life is not None
    for client in clients:
        if client is clients[2]:
            assert node.change(life)
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
    """Every one of those who asked is told why, nobody is cancelled, and it may be consumed from and deleted again."""
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
