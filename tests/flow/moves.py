"""Queues that move between shards, as rules, and invariants once everything has come to rest."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from shard.queue.residence import OPEN
from tests.flow.operators import Operators
from tests.flow.world import KINDS
from tests.simulator.joined.processes import Acceptor, Shard

# The results of moves that were begun, or were not.
RESULTS = ("moved", "rolled-back", "already-there", "busy", "no-queue", "refused")
# Why one is not begun, or is rolled back: a process has died, an operator has asked, or the target has no room.
REASONS = ("has died", "aborted", "does not serve", "no room")


class Moves(Operators):
    """Operators move queues to other shards, and change their minds."""

    def __init__(self) -> None:
        super().__init__()
        # The answers to requests to move, of this incarnation of the router.
        self.moves: list[list[dict[str, Any]]] = []
        self.moved: set[str] = set()

    @rule(kind=st.sampled_from([*KINDS]), shard=st.integers(0, 9))
    def move_queue(self, kind: str, shard: int) -> None:
        """Move the queue of a kind; its producers are held until the move is over."""
        kept, shards = self.living().get(kind), len(self.node.shards)
        if kept is not None and self.node.router_lives:
            self.moved.add(kept.name)
            home = self.node.queue(kept.name).shard
            self.moves.append(self.node.move(kept.name, (home + 1 + shard % max(shards - 1, 1)) % shards))

    @rule(kind=st.sampled_from([*KINDS]))
    def abort_move(self, kind: str) -> None:
        """Abort the move of a kind's queue."""
        if kind in self.living() and self.node.router_lives:
            self.node.abort_move(self.living()[kind].name)

    def moves_are_over(self) -> None:
        """Check that every request is answered, each queue has one home, and nothing is left of its move there."""
        assert not self.node.router.topology.moves
        for results in self.moves:
            (answer,) = results
            assert answer["result"] in RESULTS
            unsaid = answer["result"] not in ("refused", "rolled-back")
            assert unsaid or any(reason in answer["reason"] for reason in REASONS), answer
        self.moves.clear()
        for _, acceptor in self.node.running_acceptors():
            has_settled(acceptor)
        for _, shard in self.node.running_shards():
            has_let_go(shard)
        for kept in self.living().values():
            homes = [index for index, shard in self.node.running_shards() if kept.id in shard.core.state.queues]
            assert homes == [self.node.queue(kept.name).shard]


def has_settled(acceptor: Acceptor) -> None:
    """Check that an acceptor waits for no move, and unacked deliveries are assigned to the shards that have them."""
    moves = acceptor.core.moves
    assert not moves.away
    assert not acceptor.core.gates.away
    assert not moves.decided
    assert not moves.acceptor.limbo
    for consumer in acceptor.core.delivery.consumers.values():
        assert consumer.id & 0xFF == consumer.shard == consumer.queue.shard


def has_let_go(shard: Shard) -> None:
    """Check that a shard has no queue that leaves or arrives, nor a copy of one."""
    moving = shard.core.moving
    assert not (moving.leaving or moving.arriving or moving.homings.by_id or moving.drained)
    assert not (moving.writes or moving.reads or moving.removals)
    assert all(queue.residence is OPEN for queue in shard.core.state.queues.values())
    assert not list((shard.carrier.stores / str(shard.core.state.index)).glob("move-*"))
