"""Messages that an operator looks at: in the order of their delivery, from memory or the store, and left alone."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from penstock.control.control import Refusal
from shard.browsing import BYTES_MOST, browse
from tests.shard.steps import publish
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def bodies(node: Node, skip: int = 0, count: int = 100, body_bytes: int = 1000) -> list[bytes]:
    state = node.shard(0).state
    found = browse(state, node.state("q").id, skip, count, body_bytes)
    assert found["ready"] == node.state("q").contents.ready
    return [base64.b64decode(each["body"]) for each in found["messages"]]


def test_messages_are_browsed_in_order_of_delivery_and_stay(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    publish(client, "q", b"0", b"1")
    publish(client, "q", b"2", b"3", b"4")
    got = client.call("basic.get", 1, queue="q")
    assert bodies(node) == [b"1", b"2", b"3", b"4"]
    client.send("basic.nack", 1, delivery_tag=got.arguments["delivery_tag"], requeue=True)
    node.settle()
    before = node.state("q").contents.totals.delivered
    assert bodies(node) == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(node, skip=1, count=3) == [b"1", b"2", b"3"]
    assert bodies(node, skip=5) == []
    assert node.state("q").contents.totals.delivered == before


def test_the_highest_priority_is_browsed_first(node: Node) -> None:
    node.declare("q", **{"x-max-priority": 9})
    client = open_channel(node)
    for body, priority in ((b"low", 1), (b"high", 9), (b"later", 9)):
        client.publish(1, body, routing_key="q", priority=priority)
    node.settle()
    assert bodies(node) == [b"high", b"later", b"low"]


def test_contents_on_disk_are_read_and_stay_there() -> None:
    with Node(stores=True) as node:
        node.declare("q", durable=True, **{"x-overflow": "spill", "x-max-length": 1})
        client = open_channel(node)
        sent = [b"%d" % number + bytes(4000) for number in range(200)]
        for body in sent:
            publish(client, "q", body, delivery_mode=2)
        contents = node.state("q").contents
        paged = contents.paged
        assert paged > 0
        assert bodies(node, count=1000, body_bytes=5000) == sent
        assert contents.paged == paged


def test_a_long_body_is_cut_and_its_size_told(node: Node) -> None:
    node.declare("q")
    publish(open_channel(node), "q", b"0123456789")
    found = browse(node.shard(0).state, node.state("q").id, 0, 1, 4)
    (message,) = found["messages"]
    assert (base64.b64decode(message["body"]), message["size"]) == (b"0123", 10)


def test_no_further_message_is_read_after_large_ones(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    for _ in range(4):
        publish(client, "q", bytes(BYTES_MOST // 2))
    assert len(bodies(node, body_bytes=1)) == 2
    assert len(bodies(node, skip=3, body_bytes=1)) == 1


@pytest.mark.parametrize(("skip", "count", "body_bytes"), [(0, 0, 1), (-1, 1, 1), (0, 1001, 1), (0, 2, -1)])
def test_an_answer_is_bounded(node: Node, skip: int, count: int, body_bytes: int) -> None:
    node.declare("q")
    node.settle()
    with pytest.raises(Refusal, match="at most 1000 messages"):
        browse(node.shard(0).state, node.state("q").id, skip, count, body_bytes)


def test_a_queue_that_is_not_here_is_refused(node: Node) -> None:
    with pytest.raises(Refusal, match="the queue is not on this shard"):
        browse(node.shard(0).state, 99, 0, 1, 1)
