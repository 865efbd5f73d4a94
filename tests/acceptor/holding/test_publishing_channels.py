"""The answer about publishing channels: the channels in it, and the facts about each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.holding.publishing_channels import channels
from acceptor.routing.channel_routes import MOST
from tests.shard.steps import publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q", **{"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2})
        node.declare("free")
        node.bind("x", "q", "free", key="k", type="direct")
        yield node


def answer(node: Node) -> list[dict[str, Any]]:
    core = node.core(0)
    return channels(core.state, core.routes)


def id_of(node: Node, *queues: str) -> list[int]:
    return [node.queue(queue).queue_id for queue in queues]


def fill(client: Client) -> None:
    for _ in range(2):
        publish(client, "q", *[b"m"] * 5)


def test_a_channel_that_has_not_published_is_not_in_it(node: Node) -> None:
    consumer = open_channel(node)
    consumer.call("basic.consume", 1, queue="q")
    assert answer(node) == []


def test_a_channel_that_has_published(node: Node) -> None:
    client = open_channel(node, properties={"product": "till", "version": "7"})
    publish(client, "k", b"m", exchange="x")
    (channel,) = answer(node)
    assert (channel["connection"], channel["channel"], channel["user"], channel["vhost"], channel["peer"]) == (
        client.connection.id, 1, "guest", "/", "127.0.0.1:49152",
    )  # fmt: skip
    assert channel["client"] == client.connection.whose()["client"] and "till" in channel["client"]
    assert (channel["held_by"], channel["held_seconds"], channel["parked_bytes"]) == (None, 0.0, 0)
    (route,) = channel["routes"]
    assert (route["exchanges"], route["routing_key"], route["powerless"]) == (["x"], "k", [])
    assert sorted(route["queues"]) == id_of(node, "q", "free")


def test_a_held_channel_with_the_time_and_the_parked_bytes(node: Node) -> None:
    client = open_channel(node)
    fill(client)
    node.now += 12.5
    node.settle(1)
    (channel,) = answer(node)
    assert channel["held_by"] == "queue 'q' in vhost '/': 5 of 4 messages, resume at 2"
    assert 12.5 <= channel["held_seconds"] <= 13
    inbox = client.connection.channels[1].inbox
    assert channel["parked_bytes"] == sum(item.nbytes for item in inbox) > 0
    assert [(route["exchanges"], route["queues"]) for route in channel["routes"]] == [([""], id_of(node, "q"))]


def test_routes_are_those_of_now(node: Node) -> None:
    client = open_channel(node)
    publish(client, "k", b"m", exchange="x")
    publish(client, "free", b"m")
    node.ask("queue_unbind", queue="free", source="x", key="k")
    node.settle()
    (channel,) = answer(node)
    assert [route["queues"] for route in channel["routes"]] == [id_of(node, "q"), id_of(node, "free")]
    node.ask("exchange_delete", name="x")
    node.settle()
    (channel,) = answer(node)
    assert [route["queues"] for route in channel["routes"]] == [id_of(node, "free")]


def test_the_last_routes_are_remembered(node: Node) -> None:
    client = open_channel(node)
    for number in range(MOST + 3):
        node.ask("queue_bind", queue="free", source="x", key=f"k{number}")
    node.settle()
    for number in range(MOST + 3):
        publish(client, f"k{number}", b"m", exchange="x")
    (channel,) = answer(node)
    assert [route["routing_key"] for route in channel["routes"]] == [f"k{number}" for number in range(3, MOST + 3)]
