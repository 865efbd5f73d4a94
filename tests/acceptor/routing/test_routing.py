"""Bounded routing for each client: work too long for a turn goes on in the next ones, with others beside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from acceptor.routing.routing import BUDGET
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

PATTERNS = [f"#.{'.#.'.join(words)}.#" for words in itertools.product("ab", repeat=7)]
"""Patterns whose places are all active at once."""
KEY = ".".join("ab" * 50)
PUBLISHES = 20
SLACK = 1000
"""How far a turn may exceed its budget: by one piece of work."""


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        for queue in ("bound", "free", "late"):
            node.declare(queue)
        node.core(0).topology.memory.limit = 0  # so that each match has its full cost
        for pattern in PATTERNS:
            node.bind("t", "bound", type="topic", key=pattern)
        for number in range(500):
            node.bind("h", "bound", type="headers", arguments={f"k{number}": 1, "asked": number})
        node.bind("h", "bound", type="headers", arguments={f"k{number}": 1 for number in range(70)})
        yield node


def opened(node: Node, confirms: bool = True) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    if confirms:
        client.call("confirm.select", 1)
    return client


def by_topic(client: Client, number: int) -> None:
    client.publish(1, b"%d" % number, exchange="t", routing_key=f"{KEY}.{number}")


def by_headers(client: Client, number: int) -> None:
    """Publish with headers that bindings ask for, and with different ones for each message."""
    headers = {f"k{other}": 1 for other in range(500)} | {"asked": 600 + number}
    client.publish(1, b"%d" % number, exchange="h", headers=headers)


def by_further_keys(client: Client, number: int) -> None:
    keys = [f"{KEY}.{number}.{other}" for other in range(20)]
    client.publish(1, b"%d" % number, exchange="t", routing_key="a.b", headers={"CC": keys})


def confirmed(client: Client) -> int:
    """Return the highest confirmed delivery tag."""
    return max((event.delivery_tag for event in client.events[1] if event.name == "basic.ack"), default=0)


def bodies(node: Node, queue: str) -> list[bytes]:
    reader = opened(node, confirms=False)
    found = []
    for _ in range(1000):
        reader.send("basic.get", 1, queue=queue, no_ack=True)
        node.settle()
        event = reader.events[1].popleft()
        if event.name == "basic.get-empty":
            return found
        found.append(event.body)
    raise AssertionError("there is no end of it")


@pytest.mark.parametrize("publish", [by_topic, by_headers, by_further_keys])
def test_others_go_on_beside_it(node: Node, publish: Callable[[Client, int], None]) -> None:
    """A neighbour's confirm comes before the costly client's batch is done, and no turn costs more than allowed."""
    costly, neighbour = opened(node), opened(node)
    for number in range(PUBLISHES):
        publish(costly, number)
    neighbour.publish(1, b"x", routing_key="free")
    work, spent, turns = costly.connection.budget.work, 0, 0
    while not confirmed(neighbour):
        node.step()
    assert confirmed(costly) < PUBLISHES
    while confirmed(costly) < PUBLISHES:
        before = work.visited
        node.step()
        turns += 1
        assert work.visited - before <= 2 * (BUDGET + SLACK)
        spent = max(spent, work.visited - before)
    assert turns > 3
    assert spent > BUDGET / 2
    assert bodies(node, "bound") == [b"%d" % number for number in range(PUBLISHES)]


def test_what_is_known_costs_nothing(node: Node) -> None:
    client = opened(node)
    by_topic(client, 1)
    node.settle()
    visited = client.connection.budget.work.visited
    for _ in range(100):
        by_topic(client, 1)
    node.settle()
    assert client.connection.budget.work.visited == visited
    assert len(bodies(node, "bound")) == 101


def test_messages_with_the_same_pairs_share_a_route(node: Node) -> None:
    client = opened(node)
    for number in range(100):
        client.publish(1, b"x", exchange="h", headers={"k1": 1, "asked": 1, "id": number})
    node.settle()
    assert len(node.core(0).routes.properties_cache) == 1
    assert confirmed(client) == 100
    assert len(bodies(node, "bound")) == 100


def test_several_that_cost_much_share_a_turn(node: Node) -> None:
    """All clients together spend one budget; none of them waits for another to end."""
    clients = [opened(node) for _ in range(5)]
    for number, client in enumerate(clients):
        for other in range(4):
            by_topic(client, 10 * number + other)
    node.step()
    works = [client.connection.budget.work for client in clients]
    ends = []
    while len(ends) < len(clients):
        before = [work.visited for work in works]
        node.step()
        assert sum(work.visited for work in works) - sum(before) <= 2 * BUDGET + SLACK
        ends += [client for client in clients if confirmed(client) == 4 and client not in ends]
        if len(ends) == 1:
            assert all(confirmed(client) >= 2 for client in clients)
    assert len(bodies(node, "bound")) == 20


def test_a_binding_counts_for_what_comes_behind_it(node: Node) -> None:
    """Later publishes do not use a route begun before the binding, nor is that route begun again for each change."""
    client, other = opened(node), opened(node)
    by_topic(client, 1)
    node.step()
    assert node.core(0).gates.routing.waiting
    node.bind("t", "late", type="topic", key="#")
    node.step()
    by_topic(other, 1)
    while not confirmed(client):
        node.bind("t", "late", type="topic", key=f"never.{node.version}")
        node.step()
    node.settle()
    assert confirmed(other)
    assert bodies(node, "bound") == [b"1", b"1"]
    assert bodies(node, "late") in ([b"1"], [b"1", b"1"])


def test_a_queue_may_go_meanwhile(node: Node) -> None:
    client = opened(node)
    for number in range(3):
        by_topic(client, number)
    node.step()
    deleting = opened(node, confirms=False)
    deleting.call("queue.delete", 1, queue="bound")
    node.settle()
    assert confirmed(client) == 3


def test_an_exchange_may_go_meanwhile(node: Node) -> None:
    """A route that was begun is finished; publishes whose turn comes later are refused."""
    client = opened(node)
    for number in range(3):
        by_topic(client, number)
    node.step()
    node.ask("exchange_delete", name="t")
    node.settle()
    assert client.take("channel.close", 1).code == 404
    assert client.names(0) == []


def test_what_waits_outlives_its_channel(node: Node) -> None:
    client = opened(node)
    for number in range(PUBLISHES):
        by_topic(client, number)
    client.send("channel.close", 1, code=200, text="", class_id=0, method_id=0)
    client.send("connection.close", code=200, text="", class_id=0, method_id=0)
    node.settle()
    assert bodies(node, "bound") == [b"%d" % number for number in range(PUBLISHES)]


@pytest.mark.parametrize("publish", [by_topic, by_headers])
@pytest.mark.parametrize("changes", [False, True])
def test_a_commit_is_found_its_ways_from_turn_to_turn(
    node: Node, publish: Callable[[Client, int], None], changes: bool
) -> None:
    costly, neighbour = opened(node, confirms=False), opened(node)
    costly.call("tx.select", 1)
    for number in range(PUBLISHES):
        publish(costly, number)
    costly.send("tx.commit", 1)
    neighbour.publish(1, b"x", routing_key="free")
    while not confirmed(neighbour):
        node.step()
    assert "tx.commit-ok" not in costly.names(1)
    while "tx.commit-ok" not in costly.names(1):
        if changes:
            node.bind("t", "late", type="topic", key=f"never.{node.version}")
        node.step()
    assert bodies(node, "bound") == [b"%d" % number for number in range(PUBLISHES)]


def test_order_is_kept(node: Node) -> None:
    """Cheap publishes wait behind costly ones, on the same channel only."""
    client = opened(node)
    client.call("channel.open", 2)
    client.call("confirm.select", 2)
    by_topic(client, 0)
    client.publish(1, b"1", routing_key="bound")
    client.publish(2, b"2", routing_key="free")
    node.settle()
    assert bodies(node, "bound") == [b"0", b"1"]
    assert bodies(node, "free") == [b"2"]


def test_who_overtakes_by_destination_goes_on(node: Node) -> None:
    client = node.connect(properties={"overtaking": "destination"})
    client.call("channel.open", 1)
    client.call("confirm.select", 1)
    for number in range(5):
        by_topic(client, number)
        client.publish(1, b"x", routing_key="free")
    node.settle()
    assert confirmed(client) == 10
    assert len(bodies(node, "bound")) == len(bodies(node, "free")) == 5
