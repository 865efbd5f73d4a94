"""The state of a connection: its output, its client's declarations, and whether it may send acks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.connection_state import FRAME_BEFORE_TUNE
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def test_a_written_method_waits_for_the_flush_and_none_follows_the_last_word(node: Node) -> None:
    client = node.connect()
    connection, state = client.connection, node.core(0).state
    connection.send(0, "connection_unblocked")
    assert connection in state.dirty and not client.names()
    node.settle()
    assert client.names() == ["connection.unblocked"]
    connection.hang_up()
    connection.send(0, "connection_unblocked")
    assert connection not in state.dirty and not connection.output.size


def test_log_lines_tell_a_connection_from_others(node: Node) -> None:
    client = node.connect(properties={"product": "p", "version": "1.2", "connection_name": "orders"})
    assert client.connection.whose() == {
        "connection": "0.1.1", "peer": "127.0.0.1:49152", "client": "p 1.2 orders", "user": "guest", "vhost": "/",
    }  # fmt: skip
    assert node.connect().connection.id == "0.1.2"


@pytest.mark.parametrize(
    ("product", "heartbeat", "seconds"),
    [("?", 0, 10), ("?", 3, 10), ("aiormq", 0, 60), ("aiormq", 30, 10), ("aiormq", 600, 60), ("py-amqp", 3, 0.4)],
)
def test_the_drip_is_as_often_as_the_client_or_its_heartbeats_need(
    node: Node, product: str, heartbeat: int, seconds: float
) -> None:
    client = node.connect(properties={"product": product}, heartbeat=heartbeat)
    assert client.connection.drip_seconds() == pytest.approx(seconds)


def test_a_connection_may_send_acks_if_one_of_its_channels_may(node: Node) -> None:
    client = open_channel(node)
    client.call("channel.open", 2)
    connection = client.connection
    assert not connection.settles() and not connection.has_in_hand()
    client.call("basic.consume", 2, queue="q")
    assert connection.settles() and not connection.has_in_hand()
    client.publish(1, b"m", routing_key="q")
    node.settle()
    assert connection.has_in_hand()
    client.call("channel.close", 2)
    assert not connection.settles() and not connection.has_in_hand()


def test_frames_are_small_until_their_size_is_negotiated(node: Node) -> None:
    client = node.visit()
    assert client.connection.frame_max == client.connection.scanner.frame_max == FRAME_BEFORE_TUNE
    client.log_in()
    node.settle()
    assert client.connection.frame_max == client.connection.scanner.frame_max == 131072
