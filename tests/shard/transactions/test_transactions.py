"""A shard's part of a transaction: it is applied whole or refused whole, and reserved room is kept for it alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.bus import to_acceptor
from penstock.bus.operations_cy import Operation
from penstock.bus.to_shard import Commit, Do, Prepare, Publish, Reserve
from shard.core import ShardCore
from shard.turns.link import Link
from tests.shard.steps import get, publish
from tests.shard.store.test_store import batch
from tests.simulator.joined.node import Node, open_channel

ME = b"acceptor.0.7"
TURN, GROUP, NUMBER = 3, 11, 5
BYTES = 10
"""The size of each message's body."""


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with two queues that refuse a third message, and one that refuses nothing."""
    with Node() as node:
        for name in "small", "other":
            node.declare(name, **{"x-max-length": 2, "x-overflow": "reject-publish"})
        node.declare("open")
        node.settle()
        yield node


def ids(node: Node, *names: str) -> list[int]:
    return [node.queue(name).queue_id for name in names]


def apply(node: Node, *operations: Operation) -> Link:
    """Apply a turn with one message in batch 0 and two in batch 2; return its link."""
    core: ShardCore = node.shard(0)
    parts: list[Any] = []
    for count in 1, 2:
        parts += batch(*[bytes(BYTES)] * count, flags=0).slices(0, count)
    core.receive(ME, TURN, 0, 0, list(operations), parts)
    return core.state.links[ME]


def one(queues: list[int]) -> Publish:
    return Publish(queues, 0, 0, 1)


def two(queues: list[int]) -> Publish:
    return Publish(queues, 2, 0, 2)


def depths(node: Node) -> list[int]:
    return [node.state(name).depth for name in ("small", "other", "open")]


def replies(link: Link) -> list[Any]:
    """Return the results of requests since the last call."""
    found = [operation.result for operation in link.turn.operations if isinstance(operation, to_acceptor.Reply)]
    link.turn.operations.clear()
    return found


def test_it_is_applied_whole_or_refused_whole(node: Node) -> None:
    """The room that its publishes need in a queue is added up. Later operations of the turn are not part of it."""
    small, other = ids(node, "small", "open"), ids(node, "other", "open")
    link = apply(
        node, Commit(2, None, []), one(other), two(other), one(ids(node, "open")),
        Commit(2, None, []), one(small), one(small),
    )  # fmt: skip
    assert depths(node) == [2, 0, 3]
    assert list(link.verdicts) == [to_acceptor.Refused(TURN, 0, node.queue("other").queue_id)]


def test_a_refused_transaction_settles_nothing(node: Node) -> None:
    client = open_channel(node)
    client.call("tx.select", 1)
    publisher = open_channel(node)
    publish(publisher, "open", b"m")
    publish(publisher, "small", b"1", b"2")
    event = get(client, "open", no_ack=False)
    assert event is not None
    client.send("basic.ack", 1, delivery_tag=event.delivery_tag)
    client.publish(1, b"3", routing_key="small")
    client.send("tx.commit", 1)
    node.settle()
    assert client.take("channel.close", 1).code == 406
    assert depths(node) == [2, 0, 1] and node.state("open").contents.totals.acked == 0


def test_powerless_queues_refuse_for_themselves_only(node: Node) -> None:
    both = ids(node, "small", "other")
    link = apply(node, Commit(2, None, both[:1]), two(both), one(both[:1]))
    assert depths(node) == [2, 2, 0] and not link.verdicts


def test_reserved_room_counts_as_used_until_it_is_released(node: Node) -> None:
    (id,) = ids(node, "small")
    link = apply(node, Reserve(GROUP, [[id, 1, BYTES], [999, 5, 5]], 1))
    small = node.state("small")
    assert (replies(link), small.pending.reserved, small.pending.reserved_bytes) == ([None], 1, BYTES)
    apply(node, two([id]))
    assert link.verdicts.pop() == to_acceptor.Rejected(TURN, 0, id, 1, 1)
    apply(node, Reserve(GROUP, [], 2))
    assert (replies(link), small.pending.reserved, small.pending.reserved_bytes) == ([None], 0, 0)
    apply(node, one([id]))
    assert small.depth == 2 and not link.verdicts


def test_a_reservation_replaces_the_one_before_and_is_made_whole_or_not_at_all(node: Node) -> None:
    small, other = ids(node, "small", "other")
    link = apply(node, Reserve(GROUP, [[small, 2, 0]], 1), Reserve(GROUP, [[small, 1, 0]], 2))
    assert node.state("small").pending.reserved == 1
    apply(node, Reserve(GROUP + 1, [[other, 2, 0], [small, 2, 0]], 3))
    assert replies(link) == [None, None, small]
    assert (node.state("small").pending.reserved, node.state("other").pending.reserved) == (1, 0)
    assert set(link.reserved) == {GROUP}


def test_a_prepared_part_uses_the_room_reserved_for_its_channel(node: Node) -> None:
    (id,) = ids(node, "small")
    apply(node, Reserve(GROUP, [[id, 2, 2 * BYTES]], 1))
    link = apply(node, Prepare(1, None, [], NUMBER, GROUP, 0), two([id]), one(ids(node, "open")))
    small, two_phase = node.state("small"), node.shard(0).two_phase
    assert not link.reserved and small.pending.reserved == 2
    assert (small.depth, small.contents.ready, node.state("open").depth) == (2, 0, 1)
    apply(node, Do(NUMBER, 9))
    assert not two_phase.parts
    assert (small.pending.reserved, small.pending.reserved_bytes, small.contents.ready) == (0, 0, 2)
