"""Limited rates: passing, sharing, waiting, and notices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("a", shard=0)
        node.declare("b", shard=1)
        node.bind("x", "a", "b", type="direct", key="both")
        node.bind("x", "a", type="direct", key="k.a")
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return opened(node, 0)


def opened(node: Node, acceptor: int) -> Client:
    client = node.connect(acceptor, properties=JAVA)
    client.call("channel.open", 1)
    client.call("channel.open", 2)
    return client


def limit(node: Node, apply_to: str, vhost: str = "/", pattern: str = "", **definition: Any) -> None:
    """Set the policy, or delete it."""
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    node.policy("p", pattern, spelled or None, apply_to, vhost)


def publish(client: Client, count: int, key: str = "a", exchange: str = "", nbytes: int = 1, channel: int = 1) -> None:
    for _ in range(count):
        client.publish(channel, bytes(nbytes), exchange=exchange, routing_key=key)
    client.node.settle()


def depth(node: Node, queue: str = "a") -> int:
    return node.state(queue).depth


def held(client: Client, channel: int = 1) -> str:
    gate = client.connection.channels[channel].held_by
    return "" if gate is None else str(gate)


@pytest.mark.parametrize(
    ("apply_to", "vhost", "exchange", "key", "extra", "name"),
    [
        ("queues", "/", "", "a", {}, "queue 'a' in vhost '/'"),
        ("exchanges", "/", "x", "k.a", {}, "exchange 'x' in vhost '/'"),
        ("routing_keys", "/", "x", "k.a", {"routing_key": "wildcard:k.>"},
         "routing keys wildcard:k.> of exchange 'x' in vhost '/'"),
        ("users", "/", "", "a", {}, "user 'guest' in vhost '/'"),
        ("vhosts", "", "", "a", {}, "vhost '/'"),
        ("node", "", "", "a", {}, "the node"),
    ],
)  # fmt: skip
def test_of_everything(
    node: Node, client: Client, apply_to: str, vhost: str, exchange: str, key: str, extra: dict[str, Any], name: str
) -> None:
    limit(node, apply_to, vhost, max_rate=10, **extra)
    publish(client, 40, key, exchange)
    assert depth(node) == 10, "the burst: what a second brings"
    node.settle(rechecks=10)
    assert depth(node) == 20
    assert held(client) == f"rate of {name}: 10 messages a second"
    assert client.take("channel.flow", 1).active is False
    node.settle(rechecks=25)
    assert depth(node) == 40 and not held(client)
    assert client.take("channel.flow", 1).active is True


def test_bytes_and_a_burst(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate_bytes="10 kB", rate_burst="500 ms")
    publish(client, 20, nbytes=1000)
    assert depth(node) == 5
    node.settle(rechecks=10)
    assert depth(node) == 15
    assert held(client) == "rate of queue 'a' in vhost '/': 10000 bytes a second"
    node.settle(rechecks=30)
    publish(client, 20, nbytes=1000)
    assert depth(node) == 25, "no more than the burst is saved up"


def test_one_message_of_more_than_the_burst_passes_and_is_paid_for(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate_bytes=1000)
    publish(client, 2, nbytes=3000)
    assert depth(node) == 1
    node.settle(rechecks=19)
    assert depth(node) == 1
    node.settle(rechecks=3)
    assert depth(node) == 2


def test_arguments_of_a_queue(node: Node, client: Client) -> None:
    node.declare("c", **{"x-max-rate": 5, "x-max-rate-bytes": "1 kB"})
    publish(client, 20, "c", nbytes=100)
    assert depth(node, "c") == 5
    assert client.connection.channels[1].gates
    limit(node, "queues", max_rate=2)
    node.settle(rechecks=10)
    assert 6 <= depth(node, "c") <= 7, "the smaller counts"


def test_the_acceptors_share_a_rate(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate=100)
    other = opened(node, 1)
    publish(client, 70)
    publish(other, 70)
    assert depth(node) == 100
    node.settle(rechecks=4)
    assert depth(node) == 140


def test_one_alone_gets_all_of_it(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate=100)
    publish(client, 300)
    node.settle(rechecks=10)
    assert depth(node) == 200


def test_a_message_counts_once_in_each(node: Node, client: Client) -> None:
    node.policy("q", "^b$", {"max-rate": 4}, "queues")
    limit(node, "exchanges", max_rate=10)
    publish(client, 20, "both", "x")
    assert (depth(node, "a"), depth(node, "b")) == (4, 4)
    publish(client, 20, "k.a", "x", channel=2)
    assert depth(node, "a") == 10


def test_who_waits_goes_on_when_the_limit_is_raised_or_gone(node: Node, client: Client) -> None:
    limit(node, "users", max_rate=10)
    publish(client, 100)
    limit(node, "users", max_rate=20)
    node.settle(rechecks=10)
    assert depth(node) == 30
    limit(node, "users")
    node.settle()
    assert depth(node) == 100 and not held(client)


def test_what_goes_nowhere_costs_nothing(node: Node, client: Client) -> None:
    limit(node, "exchanges", max_rate=5)
    client.call("confirm.select", 1)
    publish(client, 20, "nobody", "x")
    assert max(event.delivery_tag for event in client.events[1]) == 20
    publish(client, 5, "k.a", "x")
    assert depth(node) == 5


def test_a_transaction_waits_for_all_of_it(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate=10)
    client.call("tx.select", 2)
    publish(client, 5)
    publish(client, 8, channel=2)
    client.send("tx.commit", 2)
    node.settle()
    assert depth(node) == 5
    node.settle(rechecks=4)
    assert depth(node) == 13 and client.take("tx.commit-ok", 2)
    publish(client, 30, channel=2)
    client.send("tx.commit", 2)
    node.settle(rechecks=10)
    assert depth(node) == 43, "more than the burst goes when nothing was spent for so long"
    publish(client, 1)
    node.settle(rechecks=15)
    assert depth(node) == 43
    node.settle(rechecks=8)
    assert depth(node) == 44


def test_without_limits_there_are_no_gates(node: Node, client: Client) -> None:
    publish(client, 5)
    core = node.core(0)
    assert not core.gates.rates.active and not core.gates.rates.by_bucket
    assert not core.gates.metered.closed and core.gates.metered.due() is None
