"""Deliveries on their way to sockets, the windows that they use, and consumers across deaths of their shard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.clients.consumers import Consumer
from acceptor.consuming.delivery import WINDOW_SHARE
from penstock import bus
from penstock.batch.consumer_ids import GETS
from penstock.bus.to_acceptor import Cancelled, Elected
from shard.queue.deletion import DeletionEvent
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

WINDOW = 64 * 1024
BODY = bytes(WINDOW // WINDOW_SHARE // 2)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(flow={"consumer_window_bytes": WINDOW, "connection_window_bytes": 4 * WINDOW}) as node:
        yield node


def consuming(node: Node, queue: str = "q", **options: Any) -> tuple[Client, Consumer]:
    """Return a client with a consumer of a new queue."""
    node.declare(queue)
    client = open_channel(node, **options)
    client.call("basic.consume", 1, queue=queue, consumer_tag="c")
    return client, client.connection.channels[1].consumers["c"]


def deliver(node: Node, client: Client, count: int, queue: str = "q") -> None:
    for _ in range(count):
        client.publish(1, BODY, routing_key=queue)
        node.settle()


# Ids


def test_ids_are_unique_and_name_their_shard(node: Node) -> None:
    delivery = node.core(0).delivery
    consumers, getters = [delivery.next_consumer(shard) for shard in (0, 3, 0)], [delivery.next_getter(3)]
    assert len({id & ~GETS for id in (*consumers, *getters)}) == 4
    assert [id & 255 for id in (*consumers, *getters)] == [0, 3, 0, 3]
    assert [bool(id & GETS) for id in (*consumers, *getters)] == [False, False, False, True]


def test_a_renamed_consumer_is_found_by_its_new_id_alone_and_a_forgotten_one_by_none(node: Node) -> None:
    _, consumer = consuming(node)
    delivery, old = node.core(0).delivery, consumer.id
    new = delivery.next_consumer(0)
    delivery.rename(consumer, new)
    assert delivery.consumers == {new: consumer} and consumer.id == new != old
    delivery.forget(consumer)
    delivery.rename(consumer, old)
    assert not delivery.consumers and consumer.id == old


# Windows


def test_bytes_are_reported_once_an_eighth_of_the_window_has_left(node: Node) -> None:
    client, consumer = consuming(node)
    deliver(node, client, 1)
    assert consumer.written == client.connection.unreported > len(BODY)
    deliver(node, client, 1)
    assert consumer.written == client.connection.unreported == 0


def test_many_consumers_report_once_an_eighth_of_their_connections_window_has_left() -> None:
    with Node(flow={"consumer_window_bytes": 8 * WINDOW, "connection_window_bytes": WINDOW}) as node:
        client = open_channel(node)
        for queue in ("a", "b"):
            node.declare(queue)
            client.call("basic.consume", 1, queue=queue, consumer_tag=queue)
        deliver(node, client, 1, "a")
        assert client.connection.unreported > len(BODY)
        deliver(node, client, 1, "b")
        assert not client.connection.unreported
        assert not any(consumer.written for consumer in client.connection.channels[1].consumers.values())


@pytest.mark.parametrize("end", ["drained", "lost", "cancelled"])
def test_nothing_is_reported_while_the_socket_accepts_nothing(node: Node, end: str) -> None:
    client, consumer = consuming(node)
    delivery = node.core(0).delivery
    delivery.writable(client.connection, False)
    deliver(node, client, 4)
    assert consumer.written > WINDOW // WINDOW_SHARE
    assert delivery.uncredited == {client.connection}
    if end == "drained":
        delivery.writable(client.connection, True)
        assert not consumer.written and not delivery.uncredited
    elif end == "lost":
        client.lose()
        assert not delivery.uncredited and not delivery.consumers
    else:
        client.call("basic.cancel", 1, consumer_tag="c")
    assert not client.connection.unreported


def test_deliveries_are_counted_with_the_bytes_of_whole_messages(node: Node) -> None:
    client, consumer = consuming(node)
    for body in (b"1", b"22"):
        client.publish(1, body, routing_key="q")
    node.settle()
    assert node.core(0).delivery.delivered_total == 2
    assert client.connection.delivered == consumer.written > 2 * bus.MESSAGE_WEIGHT


# Messages from shards


def test_a_delivery_for_a_consumer_that_is_gone_is_dropped_and_returns_to_its_queue(node: Node) -> None:
    client, _ = consuming(node)
    publisher = open_channel(node)
    publisher.publish(1, b"late", routing_key="q")
    publisher.read()
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)
    client.lose()
    node.send_down(0, 0)
    assert not client.connection.delivered and not node.core(0).delivery.delivered_total
    node.settle()
    assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (1, 0)


@pytest.mark.parametrize("reported", [False, True])
def test_a_client_is_told_of_the_end_of_its_queue_if_it_can_be(node: Node, reported: bool) -> None:
    client, consumer = consuming(node, capabilities={"consumer_cancel_notify": reported})
    node.ask("queue_delete", queue_id=consumer.queue.queue_id)
    node.settle()
    assert client.names(1) == ["basic.cancel"] * reported
    assert not node.core(0).delivery.consumers and not client.connection.channels[1].consumers


def test_a_message_about_a_consumer_that_is_gone_is_ignored(node: Node) -> None:
    _, consumer = consuming(node)
    delivery = node.core(0).delivery
    delivery.on_operation(0, Elected(consumer.id + 256))
    assert not consumer.elected
    delivery.on_operation(0, Elected(consumer.id))
    assert consumer.elected
    delivery.on_operation(0, Cancelled(consumer.id + 256))
    assert delivery.consumers == {consumer.id: consumer}


# Shards that die and come back


def shard_restarts(node: Node, shard: int = 0, arriving: int = 1 << 30) -> None:
    node.kill_shard(shard, arriving)
    node.settle()
    node.start_shard(shard)
    node.settle(1)


def consumers(node: Node, queue: str) -> int:
    return len(node.state(queue).ring)


def test_a_consumer_that_waits_for_its_answer_is_attached_once(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.send("basic.consume", 1, queue="q", exclusive=True, consumer_tag="c")
    client.read()
    node.finish(0)
    shard_restarts(node)
    client.take("basic.consume-ok", 1)
    assert consumers(node, "q") == 1
    client.publish(1, b"m", routing_key="q")
    node.settle()
    assert client.take("basic.deliver", 1).body == b"m"


def test_a_consumer_that_is_being_cancelled_is_not_attached_again(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    client.send("basic.cancel", 1, consumer_tag="c")
    client.read()
    node.finish(0)
    shard_restarts(node)
    client.take("basic.cancel-ok", 1)
    assert consumers(node, "q") == 0
    client.publish(1, b"m", routing_key="q")
    node.settle()
    assert node.state("q").contents.ready == 1


@pytest.mark.parametrize("method", ["basic.consume", "basic.get"])
def test_a_channel_that_has_ended_asks_for_nothing_any_more(method: str) -> None:
    with Node(acceptors=2) as node:
        node.declare("q")
        publisher, client = open_channel(node, 0), open_channel(node, 1)
        client.send(method, 1, queue="q")
        client.read()
        node.finish(1)
        client.send("basic.ack", 1, delivery_tag=99)
        node.kill_shard(0)
        node.settle()
        publisher.publish(1, b"m", routing_key="q")
        node.start_shard(0)
        node.settle(1)
        assert client.take("channel.close", 1).code == 406
        assert consumers(node, "q") == 0
        assert (node.state("q").contents.ready, node.state("q").contents.unacked) == (1, 0)


def test_a_channel_that_wants_nothing_delivered_gets_nothing_from_the_next_incarnation(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q")
    client.call("channel.flow", 1, active=False)
    shard_restarts(node)
    client.publish(1, b"m", routing_key="q")
    node.settle()
    assert "basic.deliver" not in client.names(1)
    client.call("channel.flow", 1, active=True)
    assert client.take("basic.deliver", 1).body == b"m"


def test_a_consumer_that_cannot_be_attached_again_is_cancelled(node: Node) -> None:
    """The queue is being deleted when its shard is back: the client is sent basic.cancel, not left waiting."""
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    node.kill_shard(0)
    node.settle()
    node.start_shard(0)
    state = node.state("q")
    state.deletion.happened(DeletionEvent.ASK)
    node.settle()
    assert client.take("basic.cancel", 1).consumer_tag == "c"
    assert not node.core(0).delivery.consumers
