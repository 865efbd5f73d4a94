"""Queues that refuse messages beyond their limit: which of a batch they accept, and what a strict ring drops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.joined import Client, Node, open_channel
from tests.shard.steps import drain, get, publish, recount


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def nacked(client: Client) -> set[int]:
    tags: set[int] = set()
    seen = 0
    for event in client.events[1]:
        if event.name in ("basic.ack", "basic.nack"):
            first = seen + 1 if event.multiple else event.delivery_tag
            if event.name == "basic.nack":
                tags |= set(range(first, event.delivery_tag + 1))
            seen = max(seen, event.delivery_tag)
    return tags


def test_a_strict_ring_refuses_while_the_oldest_is_in_somebodys_hands(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring-strict"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *(b"%d" % number for number in range(5)))
    assert not nacked(client)
    held = get(client, "q", no_ack=False)
    assert held and held.body == b"2"
    publish(client, "q", b"5", b"6")
    assert len(nacked(client)) == 2
    client.send("basic.nack", 1, delivery_tag=held.delivery_tag, requeue=True)
    publish(client, "q", b"7")
    assert drain(client, "q") == [b"3", b"4", b"7"]
    recount(node, "q")


def test_a_strict_ring_drops_what_came_back_before_what_is_in_hand(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring-strict"})
    client = open_channel(node)
    publish(client, "q", b"0", b"1", b"2")
    for _ in range(3):
        get(client, "q", no_ack=False)
    client.send("basic.nack", 1, delivery_tag=1, requeue=True)
    publish(client, "q", b"3", b"4")
    assert drain(client, "q") == [b"3"]
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    node.settle()
    assert node.state("q").depth == 0


def test_a_strict_ring_limited_in_bytes(node: Node) -> None:
    node.declare("q", **{"x-max-length-bytes": 10, "x-overflow": "ring-strict"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", b"aaaa", b"bbbb", b"too long for it", b"cccc", b"dd")
    assert nacked(client) == {3}
    assert drain(client, "q") == [b"bbbb", b"cccc", b"dd"]
