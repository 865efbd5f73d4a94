"""Operations that a shard keeps for another until they are safe there, or that one is gone for good."""

from __future__ import annotations

from shard.turns.peers import HELD_MAX, Peers
from tests.shard.store.test_store import batch


def test_nothing_is_kept_for_a_shard_that_was_removed() -> None:
    peers = Peers()
    safe: list[str] = []
    peer = peers[3]
    peer.started()
    assert peer.close_turn(1)
    peer.made_safe(0)
    contents = batch(bytes(HELD_MAX))
    peer.publish((7,), contents, lambda: safe.append("left"))
    assert peer.close_turn(1)
    peer.publish((7,), contents, lambda: safe.append("waits"))
    assert peers.full()
    peer.end()
    assert (safe, peers.held, peers.full()) == (["left", "waits"], 0, False)
    assert peer.close_turn(1) is None
    peer.started()  # another shard with that number
    assert peer.close_turn(1)
