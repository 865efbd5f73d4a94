"""Counts of channels' publishes, kept while somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.routing import counting
from acceptor.routing.counting import KEPT_SECONDS
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("a", shard=0)
        node.declare("b", shard=1)
        node.bind("x", "a", "b", type="topic", key="k")
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    client.call("channel.open", 2)
    return client


def publish(client: Client, count: int, key: str, exchange: str = "", nbytes: int = 1, channel: int = 1) -> None:
    for _ in range(count):
        client.publish(channel, bytes(nbytes), exchange=exchange, routing_key=key)
    client.node.settle()


def reported(node: Node) -> dict[tuple[int, str, str], tuple[int, int]]:
    """Return messages and bytes by channel, exchange and key."""
    core = node.core(0)
    rows = core.routes.count(core.state.now)["publishes"]
    ways: list[tuple[int, str, str]] = [
        (row["channel"], row["exchanges"][0] if row["exchanges"] else "", row["routing_key"]) for row in rows
    ]
    return {way: (row["messages"], row["bytes"]) for way, row in zip(ways, rows, strict=True)}


def pass_time(node: Node, seconds: float) -> None:
    node.now += seconds
    node.core(0).state.now = node.now
    node.core(0).tick()


def test_each_channel_and_way_is_counted_apart(node: Node, client: Client) -> None:
    publish(client, 7, "a")
    assert reported(node) == {}, "nobody had asked"
    publish(client, 3, "a", nbytes=10)
    publish(client, 2, "k", "x", nbytes=100)
    publish(client, 4, "a", channel=2)
    publish(client, 9, "nowhere")
    assert reported(node) == {(1, "", "a"): (3, 30), (1, "x", "k"): (2, 200), (2, "", "a"): (4, 4)}
    queues = [row["queues"] for row in node.core(0).routes.count(node.core(0).state.now)["publishes"]]
    assert [len(ids) for ids in queues] == [1, 2, 1], "once, however many queues it goes to"


def test_what_is_committed_or_routed_by_headers_is_counted(node: Node, client: Client) -> None:
    node.ask("exchange_declare", name="h", type="headers")
    node.ask("queue_bind", queue="a", source="h", arguments={"n": 1})
    reported(node)
    client.call("tx.select", 2)
    publish(client, 5, "a", channel=2)
    assert reported(node) == {}
    client.call("tx.commit", 2)
    for _ in range(3):
        client.publish(1, b"x", exchange="h", routing_key="", headers={"n": 1})
    node.settle()
    assert reported(node) == {(2, "", "a"): (5, 5), (1, "h", ""): (3, 3)}


def test_counting_ends_when_nobody_asks(node: Node, client: Client) -> None:
    reported(node)
    for _ in range(2):
        pass_time(node, KEPT_SECONDS - 1)
        publish(client, 1, "a")
        assert reported(node)
    pass_time(node, KEPT_SECONDS)
    publish(client, 1, "a")
    routes = node.core(0).routes
    assert routes.counting.counts == {} and not any(route.meters for route in routes.cache.values())
    assert reported(node) == {}


def test_made_up_keys_are_counted_together(node: Node, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST", 3)
    node.bind("x", "a", type="topic", key="#")
    reported(node)
    for number in range(10):
        publish(client, 2, f"key.{number}", "x")
    counts = reported(node)
    assert len(counts) == 4 and counts[1, "", ""] == (14, 14)


def test_behind_a_limited_rate_what_has_gone_counts(node: Node, client: Client) -> None:
    reported(node)
    node.policy("p", "^a$", {"max-rate": 10})
    publish(client, 40, "a")
    assert reported(node) == {(1, "", "a"): (10, 10)}
    client.lose()
    node.settle()
    facts: list[dict[str, Any]] = node.core(0).routes.count(node.core(0).state.now)["publishes"]
    assert sum(row["messages"] for row in facts) == 10
