"""The state of a connection: what is written to it, what its client has declared, and whether it may send acks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.clients.connection_state import FRAME_BEFORE_TUNE
from tests.joined import Node, open_channel


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


@pytest.mark.parametrize(
    ("value", "text"), [("orders", "orders"), ("", None), (None, None), (7, "7"), ("x" * 300, "x" * 255)]
)
def test_a_property_is_a_text_of_bounded_length_or_missing(node: Node, value: Any, text: str | None) -> None:
    connection = node.visit().connection
    connection.properties = {} if value is None else {"product": value}
    assert connection.said("product") == text


@pytest.mark.parametrize(
    ("properties", "declared"),
    [
        ({}, False),
        ({"capabilities": "basic.nack"}, False),
        ({"capabilities": {}}, False),
        ({"capabilities": {"basic.nack": False}}, False),
        ({"capabilities": {"basic.nack": 1}}, False),
        ({"capabilities": {"basic.nack": True}}, True),
    ],
)
def test_only_a_true_flag_declares_a_capability(node: Node, properties: dict[str, Any], declared: bool) -> None:
    connection = node.visit().connection
    connection.properties = properties
    assert connection.has_capability("basic.nack") is declared


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
