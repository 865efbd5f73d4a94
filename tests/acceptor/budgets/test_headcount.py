"""Limits on connections opened per second, and the reports of connections that a limit refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.settings.limits import LimitSettings
from tests.router.making import rabbit_hash
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

HOST = "10.0.0.1"


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(limits=LimitSettings(connection_rate=5, address_connection_rate=2, user_connections=3)) as node:
        node.add_user("app")
        node.command("user_add", name="root", password_hash=rabbit_hash("guest"), tags=["administrator"])
        node.command("permission_set", user="root", vhost="/", configure="", write="", read="")
        node.settle()
        yield node


def come(node: Node, host: str, user: str = "app") -> Client:
    """Return a client from a host that has asked for connection.open."""
    client = node.visit(user=user)
    client.connection.client.host = host
    client.log_in()
    node.settle()
    return client


def refusal(node: Node, host: str, user: str = "app") -> str | None:
    """Return why a client from a host may not open its connection, None if it may; the client is gone afterwards."""
    client = come(node, host, user)
    last = client.events[0][-1]
    client.lose()
    if last.name == "connection.open-ok":
        return None
    assert (last.name, last.code) == ("connection.close", 530)
    return str(last.text)


def pass_time(node: Node, seconds: float) -> None:
    node.now += seconds
    node.core(0).state.now = node.now


def test_so_many_a_second_of_an_address(node: Node) -> None:
    refused = (
        f"NOT_ALLOWED - connection refused from {HOST}: connection rate limit of an address (2 a second) is reached"
    )
    assert [refusal(node, HOST) for _ in range(4)] == [None, None, refused, refused]
    assert refusal(node, "10.0.0.2") is None
    pass_time(node, 0.5)
    assert [refusal(node, HOST) for _ in range(2)] == [None, refused]
    assert node.core(0).headcount.refused == 3


def test_a_network_of_ipv6_counts_as_one_address(node: Node) -> None:
    assert [refusal(node, f"2001:db8::{number}") is None for number in range(1, 4)] == [True, True, False]
    assert refusal(node, "2001:db8:0:1::1") is None


def test_so_many_a_second_of_the_node(node: Node) -> None:
    assert all(refusal(node, f"10.0.1.{number}") is None for number in range(5))
    refused = refusal(node, HOST)
    assert refused and refused.endswith("connection rate limit of the node (5 a second) is reached")
    assert refusal(node, HOST, "root") is None, "administrators come in"
    pass_time(node, 0.2)
    assert refusal(node, HOST) is None and refusal(node, HOST)


def test_what_a_limit_refuses_is_counted_and_told(node: Node) -> None:
    clients = []
    for number in range(3):
        clients.append(come(node, f"10.0.2.{number}"))
        pass_time(node, 1.0)
    refused = refusal(node, "10.0.2.9")
    assert refused and "user connection limit (3)" in refused
    core = node.core(0)
    core.write_counters()
    counters = node.gauges.counters_read("acceptor", 0)
    assert (counters.refused_connections, counters.connections) == (1, 3)
    lines = [line for line in node.logs if line["event"] == "client error"]
    assert [(line["code"], line["text"]) for line in lines] == [(530, refused.removeprefix("NOT_ALLOWED - "))]
    clients[0].lose()
    assert refusal(node, "10.0.2.9") is None


def test_without_limits_there_are_none() -> None:
    with Node() as node:
        node.add_user("app")
        node.settle()
        assert [refusal(node, HOST) for _ in range(50)] == [None] * 50
        assert node.core(0).headcount.refused == 0
