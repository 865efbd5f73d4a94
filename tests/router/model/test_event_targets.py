"""The queues that receive the message of a flow-control event."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.flow.flow_events import EXCHANGE
from penstock.memory.gauges import Gauges
from router.model.event_targets import event_targets
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FACTS = {"event": "stops", "vhost": "/", "queue": "orders", "depth": 5}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return open_channel(node)


def targets(node: Node, **changed: object) -> list[str]:
    gauges: Gauges = node.gauges
    return sorted(queue.name for queue in event_targets(node.router.topology, gauges, {**FACTS, **changed}, 5))


def test_events_go_to_the_queues_bound_with_their_key_in_their_vhost(node: Node) -> None:
    node.add_vhost("v")
    for name, key in (("all", "#"), ("ours", "stops./.orders"), ("others", "resumes.#")):
        node.declare(name)
        node.ask("queue_bind", queue=name, source=EXCHANGE, key=key)
    assert targets(node) == ["all", "ours"]
    assert targets(node, event="resumes") == ["all", "others"]
    assert targets(node, queue="other") == ["all"]
    assert targets(node, vhost="v") == []


def test_a_saturated_queue_gets_no_events(node: Node, client: Client) -> None:
    node.declare("events", **{"x-flow-stop-count": 5})
    node.ask("queue_bind", queue="events", source=EXCHANGE, key="#")
    assert targets(node) == ["events"]
    for _ in range(50):
        client.publish(1, b"m", routing_key="events")
    node.settle(rechecks=1)
    assert node.gauges.saturated(node.queue("events").slot)
    assert targets(node) == []


def test_a_queue_that_moves_gets_no_events_until_it_is_at_home(node: Node) -> None:
    node.declare("events", 0, durable=True)
    node.ask("queue_bind", queue="events", source=EXCHANGE, key="#")
    results = node.begin_move("events", 1)
    assert node.router.topology.moves and targets(node) == []
    node.settle(rechecks=3)
    assert [result["result"] for result in results] == ["moved"]
    assert targets(node) == ["events"]
