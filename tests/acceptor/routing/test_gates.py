"""An acceptor's gates follow the topology: each exists as long as the object that it is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.gates.queue_gate import QueueGate
from acceptor.routing.gates import Gates
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

STOP = dict.fromkeys(("vhost", "exchange", "key", "queue", "user", "connection"))


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node


@pytest.fixture
def gates(node: Node) -> Gates:
    return node.core(0).gates


def publish(client: Client, count: int, queue: str = "q") -> None:
    for _ in range(count):
        client.publish(1, b"m", routing_key=queue)
    client.node.settle(rechecks=1)


def held(client: Client) -> bool:
    return client.connection.channels[1].held_by is not None


def queue_gate(node: Node, name: str) -> QueueGate | None:
    return node.core(0).gates.queue_gates.get(node.queue(name).queue_id)


def stop(node: Node, **names: str) -> int:
    made: dict[str, Any] = node.command("flow_stop", **{**STOP, **names}, author="ann", reason="", seconds=None)
    return int(made["number"])


def test_a_queue_has_a_gate_as_long_as_it_has_a_limit_or_a_pace(node: Node) -> None:
    node.declare("limited", **{"x-flow-stop-count": 10})
    node.declare("paced", **{"x-pace-depth": 10})
    node.declare("plain")
    node.settle()
    assert queue_gate(node, "limited") and queue_gate(node, "paced") and queue_gate(node, "plain") is None
    node.policy("p", "^plain$", {"flow-stop-count": 5})
    node.settle()
    made = queue_gate(node, "plain")
    assert made and made.marks.stop_count == 5
    node.policy("p", "^plain$", {"flow-stop-count": 7})
    node.settle()
    assert queue_gate(node, "plain") is made and made.marks.stop_count == 7
    node.policy("p", "^plain$", None)
    node.settle()
    assert queue_gate(node, "plain") is None and made.closed


def test_a_raised_limit_and_one_that_is_gone_let_waiting_channels_on(node: Node) -> None:
    node.declare("q")
    node.policy("p", "^q$", {"flow-stop-count": 20})
    client = open_channel(node, properties=JAVA)
    publish(client, 200)
    low = node.state("q").depth
    assert held(client)
    node.policy("p", "^q$", {"flow-stop-count": 100})
    node.settle(rechecks=3)
    high = node.state("q").depth
    assert held(client) and low < 100 <= high < 200
    node.policy("p", "^q$", None)
    node.settle(rechecks=3)
    assert not held(client) and node.state("q").depth == 200


def test_a_deleted_queue_leaves_no_gate_and_frees_the_channels_that_wait(node: Node, gates: Gates) -> None:
    queue = node.declare("q", **{"x-flow-stop-count": 10, "x-lane-priority": 5})
    client = open_channel(node, properties=JAVA)
    publish(client, 200)
    assert held(client) and gates.lanes == {queue.queue_id}
    node.ask("queue_delete", queue_id=queue.queue_id)
    node.settle(rechecks=1)
    assert not held(client)
    assert (gates.queue_gates, gates.lanes, gates.contended, gates.freed) == ({}, set(), {}, {})


def test_an_operators_stop_is_a_gate_until_it_is_lifted(node: Node, gates: Gates) -> None:
    node.declare("q")
    client = open_channel(node, properties=JAVA)
    number = stop(node, vhost="/", queue="q")
    publish(client, 3)
    assert list(gates.stops) == [number] and held(client) and node.state("q").depth == 0
    node.command("flow_lift", number=number)
    node.settle(rechecks=1)
    assert gates.stops == {} and not held(client) and node.state("q").depth == 3


def test_after_a_snapshot_only_gates_of_what_exists_are_left(node: Node, gates: Gates) -> None:
    kept, gone = (node.declare(name, **{"x-flow-stop-count": 5}) for name in ("kept", "gone"))
    number, lifted = stop(node, user="ann"), stop(node, user="bob")
    node.settle()
    assert gates.queue_gates.keys() == {kept.queue_id, gone.queue_id} and gates.stops.keys() == {number, lifted}
    node.ask("queue_delete", queue_id=gone.queue_id)
    node.command("flow_lift", number=lifted)
    acceptor = node.acceptors[0]
    assert acceptor
    acceptor.changes.clear()
    acceptor.core.load(node.version, node.snapshot())
    assert gates.queue_gates.keys() == {kept.queue_id} and gates.stops.keys() == {number}


def test_the_gate_of_a_moved_queue_looks_at_its_new_place(node: Node, gates: Gates) -> None:
    queue = node.declare("q", 0, durable=True, **{"x-flow-stop-count": 10})
    node.settle()
    gate = gates.queue_gates[queue.queue_id]
    gate.announced_epoch = 7
    results = node.move("q", 1)
    node.settle(rechecks=3)
    assert [result["result"] for result in results] == ["moved"]
    assert gates.queue_gates[queue.queue_id] is gate
    assert gate.slot == node.queue("q").slot != queue.slot and gate.announced_epoch != 7
    assert queue.queue_id not in gates.away


@pytest.mark.parametrize(("durable", "answer"), [(False, "basic.nack"), (True, "basic.ack")])
def test_the_death_of_a_shard_nacks_withheld_confirms_of_its_transient_queues_alone(durable: bool, answer: str) -> None:
    with Node(stores=True) as node:
        node.declare("q", durable=durable, **{"x-flow-stop-count": 10, "x-throttle": "confirms, park"})
        client = open_channel(node)
        client.call("confirm.select", 1)
        for _ in range(30):
            client.publish(1, b"m", routing_key="q", delivery_mode=2)
        node.settle(rechecks=1)
        gate = queue_gate(node, "q")
        assert gate and gate.withheld
        client.events[1].clear()
        node.kill_shard(0)
        node.settle()
        assert ("basic.nack" in client.names(1)) is (answer == "basic.nack")
        assert bool(gate.withheld) is durable
