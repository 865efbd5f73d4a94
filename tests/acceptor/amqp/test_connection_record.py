"""Telemetry rows of connections: one when it opens, one when it ends, and one for a client that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frames import PROTOCOL_HEADER
from tests.raw import JAVA
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def rows(node: Node, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of the rows recorded so far."""
    return [tuple(row[column] for column in columns) for row in node.rows["connection"]]


def test_an_open_connection_is_recorded_with_its_client(node: Node) -> None:
    client = node.connect(properties=JAVA)
    columns = ("event", "connection", "peer", "product", "platform", "product_version", "user", "vhost")
    assert rows(node, *columns) == [
        ("open", client.connection.id, client.connection.client.peer, "RabbitMQ", "Java", "5.20.0", "guest", "/")
    ]
    assert rows(node, "channels", "reason", "open_ms") == [(0, None, None)]


def test_the_row_of_its_end_has_the_channels_the_reason_and_the_duration(node: Node) -> None:
    client = open_channel(node)
    client.call("channel.open", 2)
    node.core(0).state.now = node.now = node.now + 2.5
    client.call("connection.close", code=200, text="bye")
    client.lose()
    assert rows(node, "event", "channels", "reason", "open_ms")[1:] == [
        ("close", 2, "closed by the client: 200 bye", 2500)
    ]


def test_the_first_reason_counts(node: Node) -> None:
    client = open_channel(node)
    client.send("basic.qos", 7)
    node.settle()
    client.connection.stay.ends(client.connection, "another one")
    client.lose()
    assert rows(node, "event", "channels", "reason")[1:] == [("close", 1, "CHANNEL_ERROR - expected 'channel.open'")]


def test_a_connection_that_ends_without_a_word_is_lost(node: Node) -> None:
    node.connect().lose()
    assert rows(node, "event", "reason") == [("open", None), ("close", "connection lost")]


def test_a_refused_client_is_recorded_once_it_is_gone(node: Node) -> None:
    client = node.visit()
    client.write(b"GET / HTTP/1.1\r\n")
    node.settle()
    assert not node.rows["connection"]
    client.lose()
    assert rows(node, "event", "reason", "user", "vhost", "open_ms") == [
        ("refused", "no AMQP 0-9-1 client", None, None, None)
    ]


def test_a_client_that_leaves_during_the_handshake_is_not_recorded(node: Node) -> None:
    client = node.visit()
    client.write(PROTOCOL_HEADER)
    node.settle()
    client.lose()
    assert not node.rows["connection"]
