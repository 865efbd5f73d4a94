"""An acceptor's part of a queue's room: the weights that it reports, and its use of those of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.gates.parts import Parts
from acceptor.gates.queue_gate import QueueGate
from penstock.bus.to_acceptor import MostWaiters
from penstock.bus.to_shard import Paced, Waiters
from tests.acceptor.gates.waiter import Waiter
from tests.simulator.joined.node import Node, open_channel

MARKS = {"x-flow-stop-count": 200, "x-flow-resume-count": 100}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("q", shard=0, **MARKS)
        node.declare("paced", shard=1, **{"x-pace-depth": 10})
        node.settle()
        yield node


def parts_of(node: Node, queue: str = "q") -> tuple[Parts, QueueGate]:
    gates = node.core(0).gates
    return gates.parts, gates.queue_gates[node.queue(queue).queue_id]


def reported(node: Node, shard: int = 0) -> list[list[int]]:
    """Return the operations about parts in the turn to a shard, and empty the turn."""
    turn = node.core(0).links[shard].turn
    found = [operation for operation in turn.operations if isinstance(operation, Waiters | Paced)]
    turn.operations.clear()
    return found


def wait(queue_gate: QueueGate, weight: int) -> Waiter:
    """Make a channel of this weight the only one that waits."""
    for channel in list(queue_gate.waiting):
        queue_gate.waiting.pop(channel)
    channel = Waiter(weight=weight)
    queue_gate.waiting[channel] = None
    return channel


def test_a_weight_is_reported_when_it_has_changed_by_enough(node: Node) -> None:
    parts, queue_gate = parts_of(node)
    for weight, is_reported in ((80, True), (80, False), (88, False), (69, True), (100, True), (0, True), (0, False)):
        channel = wait(queue_gate, weight or 1)
        if not weight:
            queue_gate.waiting.pop(channel)
        parts.report_weights([queue_gate] if weight else [])
        assert reported(node) == ([Waiters(queue_gate.id, weight)] if is_reported else []), weight
        if is_reported:
            assert queue_gate.weights.own == weight
    assert not parts.reported


def test_queues_that_are_paced_or_deleted_have_no_weight(node: Node) -> None:
    parts, queue_gate = parts_of(node)
    _, paced = parts_of(node, "paced")
    for each in (queue_gate, paced):
        wait(each, 5)
    queue_gate.closed = True
    parts.report_weights([queue_gate, paced])
    assert reported(node) == reported(node, 1) == [] and not parts.reported


def test_nothing_is_reported_while_the_shard_is_down_and_all_is_to_its_next_incarnation(node: Node) -> None:
    parts, queue_gate = parts_of(node)
    wait(queue_gate, 5)
    parts.report_weights([queue_gate])
    queue_gate.weights.most = queue_gate.weights.total = 9
    node.kill_shard(0)
    node.meet(0)
    assert (queue_gate.weights.own, queue_gate.weights.most, queue_gate.weights.total) == (
        0,
        0,
        0,
    ) and not parts.reported
    reported(node)
    parts.report_weights([queue_gate])
    assert reported(node) == [] and queue_gate.weights.own == 0
    node.start_shard(0)
    node.meet(0)
    for _ in range(2):
        node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
        node.send_down(0, 0)
    parts.report_weights([queue_gate])
    assert reported(node) == [Waiters(queue_gate.id, 5)]


def test_the_death_of_another_shard_changes_nothing(node: Node) -> None:
    parts, queue_gate = parts_of(node)
    wait(queue_gate, 5)
    parts.report_weights([queue_gate])
    parts.on_most_waiters(MostWaiters(queue_gate.id, 7, 12))
    parts.forget(1)
    assert parts.reported == {queue_gate.id: 5}
    assert (queue_gate.weights.own, queue_gate.weights.most, queue_gate.weights.total) == (5, 7, 12)


def test_the_acceptor_with_less_weight_uses_less_of_its_part(node: Node) -> None:
    parts, queue_gate = parts_of(node)
    whole = queue_gate.room()[0]
    wait(queue_gate, 5)
    parts.report_weights([queue_gate])
    parts.on_most_waiters(MostWaiters(queue_gate.id, 5, 10))
    assert queue_gate.room()[0] == whole
    parts.on_most_waiters(MostWaiters(queue_gate.id, 10, 15))
    assert queue_gate.room()[0] == whole // 2
    parts.on_most_waiters(MostWaiters(4711, 10, 15))  # a queue that is gone


def test_room_of_a_paced_queue_is_asked_for_at_its_home_while_that_is_up(node: Node) -> None:
    parts, queue_gate = parts_of(node, "paced")
    reported(node, 1)
    assert parts.ask(queue_gate, 3, 10, 2)
    assert reported(node, 1) == [Paced(queue_gate.id, 3, 10, 2)] and reported(node) == []
    node.kill_shard(1)
    node.meet(0)
    assert not parts.ask(queue_gate, 3, 10, 2)


def test_acceptors_learn_of_each_others_weight() -> None:
    with Node(acceptors=2) as node:
        record = node.declare("q", **MARKS)
        clients = [open_channel(node, acceptor) for acceptor in (0, 0, 1)]
        for client in clients:
            for _ in range(300):
                client.publish(1, b"m", routing_key="q")
        node.settle(rechecks=3)
        queue_gates = [node.core(acceptor).gates.queue_gates[record.queue_id] for acceptor in range(2)]
        weights = [queue_gate.weights for queue_gate in queue_gates]
        assert [(each.own, each.most, each.total) for each in weights] == [
            (2, 2, 3),
            (1, 2, 3),
        ]
