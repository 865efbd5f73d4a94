"""The gate of a queue that moves: its text for operators, and publishes that wait there meanwhile."""

from __future__ import annotations

from acceptor.gates.gate import UNLIMITED
from acceptor.gates.move_gate import MoveGate
from router.model.records import Move, Queue
from tests.simulator.joined.node import Node, open_channel


def test_it_names_the_queue_and_both_shards() -> None:
    queue = Queue("v", "orders", 1, 5, 0, True, False, None, {}, [], [])
    gate = MoveGate(Move(1, 9, 2, 3, "fencing", 1, 1, None, 0.0), queue)
    assert str(gate) == "queue 'orders' in vhost 'v': rebalance, it moves from shard 2 to shard 3"
    assert gate.room() == (0, 0) and gate.is_saturated() and gate.terms is None
    gate.lifted = True
    assert gate.room() == (UNLIMITED, UNLIMITED)


def test_publishes_during_a_move_wait_at_it_and_go_on_at_the_new_home() -> None:
    with Node(shards=2) as node:
        node.declare("q", shard=0)
        client = open_channel(node)
        results = node.begin_move("q", 1)
        incarnation = node.acceptors[0]
        assert incarnation is not None
        while node.change(incarnation):
            pass
        client.publish(1, b"m", routing_key="q")
        client.read()
        channel = client.connection.channels[1]
        (gate,) = channel.gates
        assert isinstance(gate, MoveGate) and list(gate.waiting) == [channel]
        node.settle()
        assert results[0]["result"] == "moved" and not channel.gates
        assert node.queue("q").shard == 1 and node.state("q").contents.ready == 1
