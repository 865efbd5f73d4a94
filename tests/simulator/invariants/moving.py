"""Invariants of moves once all of them are over: nothing is left of them."""

from __future__ import annotations

from shard.queue.residence import OPEN
from tests.simulator.joined.processes import Acceptor, Shard


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
