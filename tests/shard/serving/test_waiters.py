"""The counts of waiters for a queue at each acceptor, as the shard announces them to the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.gates.queue_gate import QueueGate
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2) as node:
        node.declare("q", **{"x-flow-stop-count": 10})
        node.settle()
        yield node


def wait(node: Node, *counts: int) -> None:
    """At each acceptor, open this many more channels that publish more than there is room for."""
    for acceptor, count in enumerate(counts):
        for _ in range(count):
            client = open_channel(node, acceptor=acceptor)
            for _ in range(30):
                client.publish(1, b"", routing_key="q")
    node.settle(rechecks=2)


def queue_gates(node: Node) -> list[QueueGate]:
    id = node.queue("q").queue_id
    return [incarnation.core.gates.queue_gates[id] for _, incarnation in node.running_acceptors()]


def weights(node: Node) -> list[tuple[int, int]]:
    return [(queue_gate.weights.own, queue_gate.weights.most) for queue_gate in queue_gates(node)]


def test_each_hears_the_most(node: Node) -> None:
    wait(node, 3, 1)
    assert weights(node) == [(3, 3), (1, 3)]
    wait(node, 0, 5)
    assert weights(node) == [(3, 6), (6, 6)]


def test_small_changes_are_not_told(node: Node) -> None:
    wait(node, 16, 0)
    wait(node, 1, 0)
    assert weights(node)[0] == (16, 16)
    wait(node, 2, 0)
    assert weights(node)[0] == (19, 19)


def test_it_is_known_of_what_is_there_only(node: Node) -> None:
    wait(node, 2, 1)
    shard = node.shard(0)
    assert shard.waiters.weights
    node.kill_acceptor(0)
    node.settle(rechecks=1)
    assert weights(node) == [(1, 1)]
    node.ask("queue_delete", queue_id=node.queue("q").queue_id)
    node.settle(rechecks=1)
    assert not shard.waiters.weights and not node.core(1).gates.parts.reported


def test_marks_that_go_and_come_back(node: Node) -> None:
    node.declare("p")
    node.policy("marks", "^p$", {"max-length": 10, "overflow": "flow"})
    for acceptor in (0, 1):
        client = open_channel(node, acceptor=acceptor)
        for _ in range(60):
            client.publish(1, b"", routing_key="p")
    node.settle(rechecks=2)
    assert len(node.shard(0).waiters.weights) == 1
    node.policy("marks", "^p$", None)
    node.settle(rechecks=2)
    assert not node.shard(0).waiters.weights
