"""Pending transactions of a queue: the room reserved for them."""

from __future__ import annotations

from shard.queue.pending_transactions import PendingTransactions


def test_reserved_room_is_given_back() -> None:
    pending = PendingTransactions()
    pending.reserve(3, 300)
    pending.reserve(1, 10)
    pending.release(3, 300)
    assert (pending.reserved, pending.reserved_bytes) == (1, 10)
