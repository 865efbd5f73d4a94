"""Queues that refuse messages beyond their limit: the messages accepted of a batch, and the drops of a strict ring."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.queue.admission import admit, admits, take_all
from shard.queue.queue_state import QueueState
from tests.shard.making import batch_of, bodies_of, limits_of, queue_of
from tests.shard.steps import drain, get, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def outcomes(client: Client) -> tuple[set[int], set[int]]:
    """Return the (acked, nacked) delivery tags of the first channel."""
    acked: set[int] = set()
    nacked: set[int] = set()
    for event in client.events[1]:
        if event.name in ("basic.ack", "basic.nack"):
            first = 1 if event.multiple else event.delivery_tag
            tags = set(range(first, event.delivery_tag + 1)) - acked - nacked
            (acked if event.name == "basic.ack" else nacked).update(tags)
    return acked, nacked


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(count)]


def test_what_a_queue_refuses_of_a_batch_is_told(node: Node) -> None:
    node.declare("q", **{"x-max-length": 5, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *numbered(8))
    assert outcomes(client) == ({1, 2, 3, 4, 5}, {6, 7, 8})
    assert drain(client, "q") == numbered(5)


def test_consumers_make_room_while_a_batch_enters(node: Node) -> None:
    node.declare("q", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=3)
    consumer.call("basic.consume", 1, queue="q")
    client.call("confirm.select", 1)
    publish(client, "q", *numbered(8))
    assert outcomes(client) == ({1, 2, 3, 4, 5}, {6, 7, 8})


def test_a_limit_in_bytes_refuses_within_a_batch(node: Node) -> None:
    """Each message that would exceed the limit is refused; a smaller one behind it may still fit."""
    node.declare("q", **{"x-max-length-bytes": 1000, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *(bytes(size) for size in (400, 500, 200, 150, 100, 1, 0, 5000)))
    assert outcomes(client) == ({1, 2, 5, 7}, {3, 4, 6, 8})
    assert node.state("q").contents.ready_bytes == 1000


def test_both_limits_refuse(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-max-length-bytes": 100, "x-overflow": "reject-publish"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", bytes(90), bytes(20), b"", b"", b"", bytes(10))
    assert outcomes(client) == ({1, 3, 4}, {2, 5, 6})


def test_a_strict_ring_refuses_while_the_oldest_is_in_somebodys_hands(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring-strict"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", *(b"%d" % number for number in range(5)))
    assert not outcomes(client)[1]
    held = get(client, "q", no_ack=False)
    assert held and held.body == b"2"
    publish(client, "q", b"5", b"6")
    assert len(outcomes(client)[1]) == 2
    client.send("basic.nack", 1, delivery_tag=held.delivery_tag, requeue=True)
    publish(client, "q", b"7")
    assert drain(client, "q") == [b"3", b"4", b"7"]
    recount(node, "q")


def test_a_strict_ring_drops_what_came_back_before_what_is_in_hand(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring-strict"})
    client = open_channel(node)
    publish(client, "q", b"0", b"1", b"2")
    for _ in range(3):
        get(client, "q", no_ack=False)
    client.send("basic.nack", 1, delivery_tag=1, requeue=True)
    publish(client, "q", b"3", b"4")
    assert drain(client, "q") == [b"3"]
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    node.settle()
    assert node.state("q").depth == 0


def test_a_strict_ring_limited_in_bytes(node: Node) -> None:
    node.declare("q", **{"x-max-length-bytes": 10, "x-overflow": "ring-strict"})
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", b"aaaa", b"bbbb", b"too long for it", b"cccc", b"dd")
    assert outcomes(client)[1] == {3}
    assert drain(client, "q") == [b"bbbb", b"cccc", b"dd"]


# Without a node


def nobody(queue: QueueState) -> None:
    """Deliver nothing: the queue has no consumers."""


def no_holder(queue: QueueState) -> int | None:
    """Return None: no message is unacked."""
    return None


LIMITS = st.none() | st.integers(0, 6), st.none() | st.integers(0, 40)
SIZES = st.lists(st.lists(st.integers(0, 15), max_size=6), max_size=5)


@given(*LIMITS, SIZES)
def test_each_message_that_fits_is_accepted_and_each_other_refused(
    max_count: int | None, max_bytes: int | None, batches: list[list[int]]
) -> None:
    queue = queue_of(limits_of("reject-publish", max_count, max_bytes))
    expected: list[bytes] = []
    for sizes in batches:
        bodies = [bytes(size) for size in sizes]
        refused = []
        for row, body in enumerate(bodies):
            full = max_count is not None and len(expected) >= max_count
            if full or (max_bytes is not None and len(b"".join([*expected, body])) > max_bytes):
                refused.append(row)
            else:
                expected.append(body)
        found = admit(queue, batch_of(b"before", *bodies), 1, len(bodies), 0, nobody, no_holder)
        assert [first - 1 + i for first, count in found for i in range(count)] == refused
        assert (queue.contents.ready, queue.contents.ready_bytes) == (len(expected), len(b"".join(expected)))
    assert bodies_of(queue.contents.pop(1 << 62, 1 << 62, True)) == expected


@given(st.booleans(), st.integers(0, 12), SIZES)
def test_a_strict_ring_has_the_newest_messages_that_fit(counted: bool, limit: int, batches: list[list[int]]) -> None:
    queue = queue_of(limits_of("ring-strict", *((limit, None) if counted else (None, limit))))
    expected: list[bytes] = []
    number = 0
    for sizes in batches:
        bodies = [bytes([number + i]) * size for i, size in enumerate(sizes)]
        number += len(bodies)
        refused = []
        for row, body in enumerate(bodies):
            if limit < (1 if counted else len(body)):
                refused.append(row)
                continue
            expected.append(body)
            while (len(expected) if counted else len(b"".join(expected))) > limit:
                expected.pop(0)
        found = admit(queue, batch_of(*bodies), 0, len(bodies), 0, nobody, no_holder)
        assert [first + i for first, count in found for i in range(count)] == refused
    assert bodies_of(queue.contents.pop(1 << 62, 1 << 62, True)) == expected


def test_a_strict_ring_drops_up_to_the_oldest_unacked_message() -> None:
    queue = queue_of(limits_of("ring-strict", 4))
    admit(queue, batch_of(b"0", b"1", b"2", b"3"), 0, 4, 0, nobody, no_holder)
    assert admit(queue, batch_of(b"4", b"5", b"6"), 0, 3, 0, nobody, lambda _: 1) == [(2, 1)]
    assert bodies_of(queue.contents.pop(4, 1 << 62, True)) == [b"2", b"3", b"4", b"5"]


def test_what_is_refused_is_dead_only_where_the_queue_asks_for_it() -> None:
    for overflow, exchange, expected in (
        ("reject-publish-dlx", "x", [b"1", b"2"]),
        ("reject-publish-dlx", None, []),
        ("reject-publish", "x", []),
    ):
        queue = queue_of(limits_of(overflow, 1), dead_letter_exchange=exchange)
        assert admit(queue, batch_of(b"0", b"1", b"2"), 0, 3, 0, nobody, no_holder) == [(1, 2)]
        assert bodies_of([item for _, item in queue.contents.take_dead()]) == expected, overflow


def test_messages_that_were_promised_room_are_taken_though_it_is_gone() -> None:
    queue = queue_of(limits_of("reject-publish", 2))
    take_all(queue, batch_of(b"0", b"1", b"2"), 0, 3, 0, nobody, no_holder)
    assert queue.contents.ready == 3
    ring = queue_of(limits_of("ring-strict", 2))
    take_all(ring, batch_of(b"0", b"1", b"2", b"3"), 0, 4, 0, nobody, no_holder)
    assert bodies_of(ring.contents.pop(9, 1 << 62, True)) == [b"2", b"3"], "a ring drops older ones for them"
    held = queue_of(limits_of("ring-strict", 2))
    take_all(held, batch_of(b"0", b"1", b"2"), 0, 3, 0, nobody, lambda _: -1)
    assert held.contents.ready == 3, "unless it may not"


def test_a_transaction_fits_whole_or_not_at_all() -> None:
    queue = queue_of(limits_of("reject-publish", 5, 100))
    queue.enqueue(batch_of(b"12345", b"12345"), 0, 2, 0)
    assert admits(queue, 3, 90, no_holder)
    assert not admits(queue, 4, 10, no_holder) and not admits(queue, 1, 91, no_holder)
    queue.pending.reserve(2, 50)
    assert admits(queue, 1, 40, no_holder)
    assert not admits(queue, 2, 10, no_holder) and not admits(queue, 1, 41, no_holder)


def test_a_strict_ring_makes_room_for_a_transaction_while_nothing_of_it_is_unacked() -> None:
    queue = queue_of(limits_of("ring-strict", 3))
    queue.enqueue(batch_of(b"0", b"1", b"2"), 0, 3, 0)
    assert admits(queue, 3, 10, no_holder) and not admits(queue, 4, 10, no_holder)
    assert not admits(queue, 1, 10, lambda _: 0)


def test_a_message_that_is_too_large_costs_a_full_strict_ring_no_other() -> None:
    queue = queue_of(limits_of("ring-strict", 2, 10))
    assert admit(queue, batch_of(b"0", b"1", bytes(11), b"2"), 0, 4, 0, nobody, no_holder) == [(2, 1)]
