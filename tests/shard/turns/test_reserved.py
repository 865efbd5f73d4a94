"""Room reserved for the transaction of a channel: it is given back once, and for that channel only."""

from __future__ import annotations

from shard.turns.link import Link
from shard.turns.reserved import release
from tests.simulator.joined.node import Node


def test_the_room_of_a_channel_is_given_back_once() -> None:
    with Node() as node:
        for name in "one", "other":
            node.declare(name)
        node.settle()
        one, other = node.state("one"), node.state("other")
        one.pending.reserve(5, 500)
        other.pending.reserve(1, 10)
        link = Link(b"acceptor.0.1")
        link.reserved = {1: [(one, 3, 300), (other, 1, 10)], 2: [(one, 2, 200)]}
        for _ in range(2):
            release(link, 1)
            release(link, 3)
            assert (one.pending.reserved, one.pending.reserved_bytes) == (2, 200)
            assert (other.pending.reserved, other.pending.reserved_bytes) == (0, 0)
        release(link, 2)
        assert (one.pending.reserved, one.pending.reserved_bytes, link.reserved) == (0, 0, {})
