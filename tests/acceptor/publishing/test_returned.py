"""Mandatory publishes to full queues with the overflow `reject`: returned with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture(params=[1, 2])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Yield a node with one shard, and one with two."""
    with Node(shards=request.param) as node:
        yield node


def reject(node: Node, name: str, count: int, shard: int = 0, overflow: str = "reject") -> None:
    node.declare(name, shard=shard, **{"x-max-length": count, "x-overflow": overflow})


def sent(node: Node, count: int, mandatory: bool = True, confirms: bool = True, size: int = 0, **way: Any) -> Client:
    """Return a producer that has published `count` numbered messages in one read."""
    client = open_channel(node)
    if confirms:
        client.call("confirm.select", 1)
    for number in range(count):
        client.publish(1, b"%d" % number + bytes(size), mandatory=mandatory, **way)
    client.read()
    node.settle()
    return client


def events_of(client: Client) -> list[str]:
    """Return the names of the returns and confirms that a client was sent, in order."""
    return [event.name for event in client.events[1] if event.name in ("basic.return", "basic.ack", "basic.nack")]


def returned(client: Client) -> list[Event]:
    return [event for event in client.events[1] if event.name == "basic.return"]


@pytest.mark.parametrize("size", [0, 30_000], ids=["joined", "in its own parts"])
def test_what_finds_no_room_comes_back_before_it_is_nacked(node: Node, size: int) -> None:
    reject(node, "q", 2)
    client = sent(node, 4, routing_key="q", size=size)
    assert [event.body.rstrip(b"\0") for event in returned(client)] == [b"2", b"3"]
    events = events_of(client)
    assert set(events) == {"basic.return", "basic.ack", "basic.nack"}
    assert max(at for at, name in enumerate(events) if name == "basic.return") < events.index("basic.nack")
    first = returned(client)[0]
    assert (first.code, first.exchange, first.routing_key) == (311, "", "q")
    assert first.text == "CONTENT_TOO_LARGE - queue 'q' in vhost '/': 2 of 2 messages"
    assert first.properties["headers"] == {"x-flow-queue": "q", "x-flow-count": 2, "x-flow-max-count": 2}


def test_without_confirms_too(node: Node) -> None:
    reject(node, "q", 1)
    client = sent(node, 3, confirms=False, routing_key="q")
    assert events_of(client) == ["basic.return"] * 2
    assert [event.body for event in returned(client)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("overflow", "mandatory"), [("reject", False), ("reject-publish", True), ("ring-strict", True)]
)
def test_others_are_nacked_as_ever(node: Node, overflow: str, mandatory: bool) -> None:
    reject(node, "q", 0, overflow=overflow)
    assert set(events_of(sent(node, 2, mandatory, routing_key="q"))) == {"basic.nack"}


def test_one_that_several_queues_refuse_comes_back_once(node: Node) -> None:
    last = len(node.shards) - 1
    for name, shard, overflow in (("a", 0, "reject"), ("b", last, "reject"), ("c", 0, "reject-publish")):
        reject(node, name, 1, shard, overflow)
    node.bind("all", "a", "b", "c")
    client = sent(node, 3, exchange="all")
    assert sorted(event.body for event in returned(client)) == [b"1", b"2"]
    assert [node.state(name).depth for name in ("a", "b", "c")] == [1, 1, 1]


def test_a_producer_that_has_gone_is_not_told(node: Node) -> None:
    reject(node, "q", 0)
    client = open_channel(node)
    client.publish(1, b"0", routing_key="q", mandatory=True)
    client.read()
    client.lose()
    node.settle()
    assert returned(client) == []
    assert node.state("q").depth == 0


@pytest.mark.parametrize("arriving", [0, 1])
def test_what_a_shard_that_dies_has_refused_comes_back_if_its_next_incarnation_refuses_it(
    node: Node, arriving: int
) -> None:
    """Each message is in the queue, or returned and nacked, whatever the dead incarnation reported to the acceptor."""
    reject(node, "q", 1)
    client = open_channel(node)
    client.call("confirm.select", 1)
    for number in range(3):
        client.publish(1, b"%d" % number, routing_key="q", mandatory=True)
    client.read()
    node.finish(0)
    node.send_up(0, 0)
    node.finish_shard(0)
    node.kill_shard(0, arriving=arriving)
    node.start_shard(0)
    node.settle()
    assert [event.body for event in returned(client)] == [b"1", b"2"]
    nacks = [event for event in client.events[1] if event.name == "basic.nack"]
    assert max(event.delivery_tag for event in nacks) == 3
    assert node.state("q").depth == 1
