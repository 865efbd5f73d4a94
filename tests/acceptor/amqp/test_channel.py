"""Methods of a held channel: those that overtake parked publishes, and those that wait behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.gates.gate import SHARE
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("full", **FLOW)
        node.declare("free")
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    """Return a client whose channel 1 is held: its last eleven publishes to "full" are parked."""
    client = node.connect()
    client.call("channel.open", 1)
    for number in range(16):
        client.publish(1, b"%d" % number, routing_key="full")
    node.settle(2)
    assert node.state("full").depth == 5
    assert client.connection.channels[1].held_by is not None
    return client


def test_methods_that_a_held_producer_must_be_able_to_send_go_first(node: Node, client: Client) -> None:
    client.call("basic.qos", 1, prefetch_count=2)
    client.call("basic.consume", 1, queue="free", consumer_tag="c")
    client.call("basic.cancel", 1, consumer_tag="c")
    client.call("basic.recover", 1, requeue=True)
    client.send("basic.get", 1, queue="free")
    node.settle()
    client.take("basic.get-empty", 1)
    assert node.state("full").depth == 5


def test_one_that_comes_while_another_waits_for_its_answer_goes_next(node: Node, client: Client) -> None:
    """All four are sent at once: only the last would make room, so none may wait for room."""
    for _ in range(3):
        client.send("basic.get", 1, queue="full", no_ack=True)
    client.send("basic.consume", 1, queue="full", no_ack=True)
    node.settle()
    assert client.names(1).count("basic.get-ok") == 3
    client.take("basic.consume-ok", 1)
    node.settle(3)
    assert client.names(1).count("basic.deliver") == 13


def test_a_close_that_comes_while_another_method_waits_for_its_answer(node: Node, client: Client) -> None:
    client.send("basic.consume", 1, queue="free")
    client.call("channel.close", 1)
    assert node.core(0).holding.parking.orphan_bytes > 0


def test_a_close_behind_a_method_that_fails_is_answered_too(node: Node) -> None:
    """Client and broker close the channel at the same time: each answers the other's close (AMQP 0-9-1, 1.5.2.5)."""
    client = node.connect()
    client.call("channel.open", 1)
    client.send("queue.declare", 1, queue="free", durable=True)
    client.send("channel.close", 1)
    node.settle()
    assert client.names(1) == ["channel.close", "channel.close-ok"]
    client.send("channel.close-ok", 1)
    client.call("channel.open", 1)


def test_what_may_mean_what_is_parked_waits_behind_it(node: Node, client: Client) -> None:
    client.send("queue.purge", 1, queue="free")
    node.settle(1)
    assert "queue.purge-ok" not in client.names(1)
    node.ask("queue_delete", queue_id=node.queue("full").queue_id)
    node.settle(1)
    client.take("queue.purge-ok", 1)


def test_a_method_does_not_overtake_what_it_means(node: Node, client: Client) -> None:
    """A queue is declared and consumed from, and the consumer cancelled, without waiting for answers."""
    client.send("queue.declare", 1, queue="new", nowait=True)
    client.send("basic.consume", 1, queue="new", consumer_tag="c")
    client.send("basic.cancel", 1, consumer_tag="c", nowait=True)
    node.settle(1)
    assert not client.names(1)
    node.ask("queue_delete", queue_id=node.queue("full").queue_id)
    node.settle(1)
    client.take("basic.consume-ok", 1)
    assert len(node.state("new").ring) == 0


def test_a_parked_method_holds_up_no_other_that_makes_room(node: Node, client: Client) -> None:
    """Neither a get nor a consumer of the full queue waits for the deletion of another queue."""
    client.send("queue.delete", 1, queue="free", nowait=True)
    client.send("basic.get", 1, queue="full", no_ack=True)
    client.call("basic.recover", 1, requeue=True)
    client.call("basic.consume", 1, queue="full", no_ack=True)
    node.settle(3)
    assert client.names(1).count("basic.deliver") == 15
    assert node.router.topology.queue("/", "free") is None


def test_a_close_does_not_wait_behind_a_parked_method(node: Node, client: Client) -> None:
    client.send("queue.declare", 1, queue="new", nowait=True)
    client.call("channel.close", 1)


def test_a_long_line_of_methods_that_need_no_answer(node: Node) -> None:
    """Deletes wait for the answer to a declare; each, done at once, must not deepen the stack of the next."""
    client = node.connect()
    client.call("channel.open", 1)
    client.send("queue.declare", 1, queue="new")
    for number in range(2000):
        client.send("queue.delete", 1, queue=f"none-{number}")
    node.settle()
    client.take("queue.declare-ok", 1)
    assert client.names(1) == ["queue.delete-ok"] * 2000


def test_more_than_its_share_goes_where_no_room_is_needed(node: Node) -> None:
    """Unroutable publishes need no room, however many they are: a publish behind them does not wait at an open gate."""
    node.declare("open", **FLOW)
    client, consumer = open_channel(node), open_channel(node)
    for _ in range(6):
        client.publish(1, b"", routing_key="full")
    for _ in range(SHARE * 2):
        client.publish(1, b"", routing_key="nowhere")
    client.publish(1, b"", routing_key="open")
    node.settle()
    for _ in range(5):
        consumer.send("basic.get", 1, queue="full", no_ack=True)
    node.settle()
    assert (node.state("full").depth, node.state("open").depth) == (1, 1)
