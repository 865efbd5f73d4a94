"""Events about limited rates and paced queues: their facts, and one per place when it begins and when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.gates.metered import Held
from acceptor.holding.metered_events import facts
from tests.acceptor.gates.test_rates import limit, opened, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

NOW = 112.3456
NUMBERS = dict.fromkeys(("count", "bytes", "stop_count", "resume_count", "stop_bytes", "resume_bytes"), 0)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("a", shard=0)
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    return opened(node, 0)


def test_of_a_rate(node: Node, client: Client) -> None:
    limit(node, "queues", max_rate=10, max_rate_bytes=5000)
    publish(client, 1)
    (gate,) = node.core(0).gates.rates.by_bucket.values()
    held = Held(gate, "/", 100.0, 3)
    about = {
        "vhost": "/", "queue": "a", "of": "queue", "cause": "rate", "max_rate": 10, "max_rate_bytes": 5000, **NUMBERS,
        "reason": str(gate),
    }  # fmt: skip
    assert facts(held, True, NOW) == {"event": "limited", **about, "channels": 3}
    assert facts(held, False, NOW) == {"event": "unlimited", **about, "seconds": 12.346}


def test_of_a_rate_without_a_name_of_its_own(node: Node, client: Client) -> None:
    limit(node, "node", vhost="", max_rate=10)
    publish(client, 1)
    (gate,) = node.core(0).gates.rates.by_bucket.values()
    found = facts(Held(gate, "/", 100.0, 1), True, NOW)
    assert (found["queue"], found["of"], found["vhost"], found["max_rate_bytes"]) == ("node", "node", "/", 0)


def test_of_a_paced_queue(node: Node, client: Client) -> None:
    marks = {"x-flow-stop-count": 100, "x-flow-resume-count": 50}
    queue = node.declare("paced", **{"x-pace-depth": 10}, **marks)
    publish(client, 4, "paced")
    queue_gate = node.core(0).gates.queue_gates[queue.queue_id]
    found = facts(Held(queue_gate, "/", 100.0, 2), True, NOW)
    count, nbytes = queue_gate.depth()
    assert count == 4 and nbytes > 4
    assert found == {
        "event": "limited", "vhost": "/", "queue": "paced", "of": "queue", "cause": "pace", "reason": str(queue_gate),
        "channels": 2, **NUMBERS, "count": count, "bytes": nbytes, "stop_count": 100, "resume_count": 50,
    }  # fmt: skip


# Events of a whole node


def listened(node: Node, key: str) -> list[dict[str, Any]]:
    """Return the events that have come to the queue `events`."""
    listener = node.connect(0)
    listener.call("channel.open", 1)
    found = []
    for _ in range(node.state("events").depth):
        event = listener.call("basic.get", 1, queue="events", no_ack=True)
        assert event.routing_key.startswith(key)
        found.append(json.loads(event.body))
        assert found[-1] == event.properties["headers"]
    return found


@pytest.mark.parametrize(
    ("apply_to", "vhost", "name"), [("queues", "/", "a"), ("vhosts", "", "/"), ("node", "", "node")]
)
def test_who_is_held_for_long_is_an_event_once(
    node: Node, client: Client, apply_to: str, vhost: str, name: str
) -> None:
    node.declare("events")
    node.ask("queue_bind", queue="events", source="amq.flow", key="limited.#")
    node.ask("queue_bind", queue="events", source="amq.flow", key="unlimited.#")
    limit(node, apply_to, vhost, max_rate=10)
    publish(client, 40)
    assert node.state("events").depth == 0, "it has only just begun to wait"
    node.settle(rechecks=20)
    (event,) = listened(node, "limited./.")
    assert (event["queue"], event["cause"], event["channels"], event["max_rate"]) == (name, "rate", 1, 10)
    assert event["reason"].startswith("rate of ")
    node.settle(rechecks=30)
    (over,) = listened(node, "unlimited./.")
    assert (over["queue"], over["cause"]) == (name, "rate")
    assert over["seconds"] >= 1
    assert [each["event"] for each in node.core(0).events.records] == ["limited", "unlimited"]
