"""The routes of a channel: the last ones are remembered, and one may be under construction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.amqp.channel import Channel
from acceptor.routing.channel_routes import MOST
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def publish(client: Client, queue: str, body: bytes) -> None:
    client.publish(1, body, routing_key=queue)
    client.node.settle()


def test_a_bounded_number_of_routes_is_remembered(node: Node, client: Client, channel: Channel) -> None:
    for number in range(MOST + 3):
        node.declare(f"q{number}")
        publish(client, f"q{number}", b"m")
    assert [route.key for route in channel.routes.recent] == [f"q{number}" for number in range(3, MOST + 3)]
    assert channel.route is list(channel.routes.recent)[-1]


def test_a_route_that_was_just_used_is_not_the_one_that_is_forgotten(
    node: Node, client: Client, channel: Channel
) -> None:
    for number in [*range(MOST), 0, MOST]:
        node.declare(f"q{number}")
        publish(client, f"q{number}", b"m")
    keys = [route.key for route in channel.routes.recent]
    assert keys[-2:] == ["q0", f"q{MOST}"] and "q1" not in keys
