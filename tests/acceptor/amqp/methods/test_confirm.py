"""Class confirm: select turns confirms on once, and not on a transactional channel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def test_selecting_twice_keeps_the_numbers_of_publishes(node: Node) -> None:
    client = open_channel(node)
    client.publish(1, b"before", routing_key="q")
    for tag in (1, 2):
        client.call("confirm.select", 1)
        client.publish(1, b"x", routing_key="q")
        node.settle()
        assert client.take("basic.ack", 1).delivery_tag == tag
    assert not client.names(1)


def test_without_an_answer_wanted_there_is_none(node: Node) -> None:
    client = open_channel(node)
    client.send("confirm.select", 1, nowait=True)
    client.publish(1, b"x", routing_key="q")
    node.settle()
    assert client.names(1) == ["basic.ack"]


def test_a_transactional_channel_is_refused(node: Node) -> None:
    client = open_channel(node)
    client.call("tx.select", 1)
    client.send("confirm.select", 1)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text) == (406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
    assert (closed.class_id, closed.method_id) == (85, 10)
