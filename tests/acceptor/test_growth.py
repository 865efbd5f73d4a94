"""Memory of cores: it depends on what exists, not on what existed, and does not grow with comings and goings."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

pytestmark = pytest.mark.long

ROUNDS = 3
MARKS = {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 2}
KINDS: tuple[dict[str, Any], ...] = (
    MARKS, {"x-pace-depth": 3}, {"x-max-rate": 20}, {"x-max-length": 4, "x-overflow": "spill"},
    {"x-overflow": "last-value", "x-last-value-key": "k"}, {**MARKS, "x-hold": "park 200 ms, reject"},
)  # fmt: skip
MINUTE = 60.0
WAIT = 12
"""Rechecks after which every channel that waits for time to pass is let in, or notified."""


def kept(cores: Iterable[object], apart: Iterable[object]) -> Counter[str]:
    """Return how many objects of each type can be reached from the cores, not counting those `apart`."""
    gc.collect()
    seen = {id(each) for each in apart}
    found: Counter[str] = Counter()
    waiting = list(cores)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(thing))
        found[type(thing).__qualname__] += 1
        waiting += gc.get_referents(thing)
    return Counter({name: count for name, count in found.items() if name not in ("int", "float", "str", "bytes")})


def entered(node: Node, acceptor: int = 0) -> Client:
    client = node.connect(acceptor, properties=JAVA)
    client.call("channel.open", 1)
    return client


def connections(node: Node) -> None:
    """Open connections: some are closed, the others are lost."""
    for acceptor in range(2):
        client = entered(node, acceptor)
        client.call("connection.close", 0, code=200)
        client.lose()
        entered(node, acceptor).lose()


def queues(node: Node) -> None:
    """Declare, fill and delete queues of every kind."""
    client, owner = entered(node), entered(node)
    for number, arguments in enumerate(KINDS):
        node.declare("q", number % 2, **arguments)
        for _ in range(30):
            client.publish(1, b"x", routing_key="q", headers={"k": "a"})
        node.settle(WAIT)
        owner.call("queue.delete", 1, queue="q")
    client.lose()
    owner.lose()


def held(node: Node) -> None:
    """Hold producers: some are released, others leave while they are held."""
    for number, arguments in enumerate(KINDS):
        name = f"held {number}"
        if node.router.topology.queue("/", name) is None:
            node.declare(name, number % 2, **arguments)
        stays, leaves, reader = entered(node), entered(node, 1), entered(node)
        for client in (stays, leaves):
            client.call("confirm.select", 1)
            for _ in range(20):
                client.publish(1, b"x", routing_key=name, headers={"k": "a"})
            node.settle(WAIT)
        leaves.lose()
        reader.send("basic.consume", 1, queue=name, no_ack=True)
        node.settle(30)
        stays.lose()
        reader.lose()


def consumers(node: Node) -> None:
    """Lose consumers that have unacked messages."""
    if node.router.topology.queue("/", "consumed") is None:
        node.declare("consumed", **MARKS)
    producer = entered(node)
    producer.publish(1, b"x", routing_key="consumed")
    for acceptor in range(2):
        consumer = entered(node, acceptor)
        consumer.send("basic.qos", 1, prefetch_count=3)
        consumer.send("basic.consume", 1, queue="consumed")
        node.settle()
        assert "basic.deliver" in consumer.names(1)
        consumer.lose()
        node.settle()
    reader = entered(node)
    reader.send("basic.consume", 1, queue="consumed", no_ack=True)
    node.settle()
    for client in (producer, reader):
        client.lose()


def stops(node: Node) -> None:
    """Set and delete policies with marks, a pace and a rate, while a producer waits for them."""
    if node.router.topology.queue("/", "stopped") is None:
        node.declare("stopped")
    client = entered(node)
    for definition in ({"flow-stop-count": 2}, {"pace-depth": 2}, {"max-rate": 10}):
        node.policy("p", "^stopped$", definition)
        for _ in range(10):
            client.publish(1, b"x", routing_key="stopped")
        node.settle(WAIT)
        node.policy("p", "^stopped$", None)
        node.settle(WAIT)
    client.call("queue.purge", 1, queue="stopped")
    client.lose()


def tidy(node: Node) -> None:
    """Let a minute pass, take the records that shells write, and make clean-ups due that wait for many entries."""
    node.now += MINUTE
    for _, acceptor in node.running_acceptors():
        acceptor.core.state.now = node.now
        acceptor.core.tick()
        acceptor.core.events.take_all()
        acceptor.core.holding.books.ledger.records.clear()
        acceptor.core.holding.books.ledger.short_stops.take_all()
        for link in acceptor.core.links:
            link.holders.enough = 0
    for _, shard in node.running_shards():
        shard.core.events.records.clear()
        shard.core.flow.incidents.clear()
        shard.core.flow.short_stops.take_all()


@pytest.mark.parametrize("churn", [connections, queues, held, consumers, stops])
def test_what_has_gone_is_forgotten(churn: Callable[[Node], None]) -> None:
    with Node(2, 2) as node:
        counts = []
        for _ in range(3):
            for _ in range(ROUNDS):
                churn(node)
            tidy(node)
            node.settle(WAIT)
            incarnations = node.acceptors_and_shards()
            apart = [node, node.logs, node.rows, node.gauges, node.settings, node.router]
            counts.append(kept([incarnation.core for incarnation in incarnations], [*apart, *incarnations]))
        assert counts[2] <= counts[1], counts[2] - counts[1]
