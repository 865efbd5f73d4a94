"""The state of a queue beside its contents: depth, limits, window, expiry, and what it drops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.joined import Node, open_channel
from tests.shard.steps import drain, publish, recount


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(count)]


def test_the_oldest_are_dropped(node: Node) -> None:
    node.declare("count", **{"x-max-length": 3})
    node.declare("bytes", **{"x-max-length-bytes": 35})
    client = open_channel(node)
    for queue in "count", "bytes":
        publish(client, queue, *numbered(9, 9))
    assert drain(client, "count") == numbered(9, 9)[-3:]
    assert drain(client, "bytes") == numbered(9, 9)[-3:]
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
    assert drain(client, "q") == [b"7", b"8"]


def test_a_ring_drops_the_oldest(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring"})
    client = open_channel(node)
    publish(client, "q", *(b"%d" % number for number in range(7)))
    assert drain(client, "q") == [b"4", b"5", b"6"]
    recount(node, "q")
