"""The state of a queue besides its contents: depth, limits, window, expiry and drops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.features import UNCONSUMED
from penstock.limits.watermarks import Marks, QueueLimits
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import NEVER, UNLIMITED
from shard.queue.deletion import DeletionEvent
from shard.queue.dropping import DROPPING, DropEvent, Dropping
from shard.queue.lease import Lease
from shard.queue.queue_state import LINGER_BYTES, QueueState, window_of
from shard.queue.residence import Step
from tests.shard.making import BESIDE, batch_of, bodies_of, limits_of, queue_of
from tests.shard.steps import drain, publish, recount
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(count)]


def test_the_oldest_are_dropped(node: Node) -> None:
    node.declare("count", **{"x-max-length": 3})
    node.declare("bytes", **{"x-max-length-bytes": 35})
    client = open_channel(node)
    for queue in "count", "bytes":
        publish(client, queue, *numbered(9, 9))
    assert drain(client, "count") == numbered(9, 9)[-3:]
    assert drain(client, "bytes") == numbered(9, 9)[-3:]
    gauge = node.gauges.queue_read(node.queue("count").slot)
    assert gauge is not None and gauge.counters.dropped == 6


def test_what_consumers_have_in_hand_is_not_dropped(node: Node) -> None:
    node.declare("q", **{"x-max-length": 2})
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.qos", 1, prefetch_count=2)
    consumer.call("basic.consume", 1, queue="q")
    publish(client, "q", *numbered(9))
    node.settle()
    assert [event.body for event in consumer.events[1]] == [b"0", b"1"]
    assert drain(client, "q") == [b"7", b"8"]


def test_a_ring_drops_the_oldest(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring"})
    client = open_channel(node)
    publish(client, "q", *(b"%d" % number for number in range(7)))
    assert drain(client, "q") == [b"4", b"5", b"6"]
    recount(node, "q")


# Without a node


def filled(queue: QueueState, *bodies: bytes, now: int = 0) -> QueueState:
    queue.enqueue(batch_of(*bodies), 0, len(bodies), now)
    return queue


def test_the_depth_is_what_is_there_and_what_is_to_come() -> None:
    """The depth counts ready and unacked messages, dead letters without room, and changes by prepared transactions."""
    queue = filled(queue_of(), b"1", b"22", b"333")
    queue.contents.pop(1, UNLIMITED, False)
    assert (queue.depth, queue.depth_bytes) == (3, 3 * BESIDE + 6)
    queue.unburied.block(5, 400, 500)
    queue.pending.count, queue.pending.whole = -1, -BESIDE
    assert (queue.depth, queue.depth_bytes) == (7, 2 * BESIDE + 506)


@pytest.mark.parametrize(("overflow", "counted"), [("reject-publish", (2, 30)), ("ring-strict", (3, 40))])
def test_a_limit_counts_ready_messages_but_a_strict_ring_all(overflow: str, counted: tuple[int, int]) -> None:
    queue = filled(queue_of(limits_of(overflow, 10, 1000)), *[bytes(10)] * 3)
    queue.contents.pop(1, UNLIMITED, False)
    queue.pending.reserve(0, 10)
    assert queue.counted == counted
    queue.pending.reserve(4, 0)
    assert queue.counted == (counted[0] + 4, counted[1])
    assert queue.is_full() == (queue.counted[0] >= 10)


@given(
    max_count=st.none() | st.integers(0, 5), max_bytes=st.none() | st.integers(0, 30),
    there=st.lists(st.integers(0, 10), max_size=4), sizes=st.lists(st.integers(0, 10), max_size=6),
)  # fmt: skip
def test_so_many_messages_fit_as_exceed_no_limit(
    max_count: int | None, max_bytes: int | None, there: list[int], sizes: list[int]
) -> None:
    queue = filled(queue_of(limits_of("reject-publish", max_count, max_bytes)), *map(bytes, there))
    expected = 0
    for taken in range(1, len(sizes) + 1):
        count_fits = max_count is None or len(there) + taken <= max_count
        if not count_fits or (max_bytes is not None and sum(there) + sum(sizes[:taken]) > max_bytes):
            break
        expected = taken
    assert queue.fitting(batch_of(*map(bytes, sizes)), 0, len(sizes)) == expected


@pytest.mark.parametrize(
    ("limits", "window"),
    [
        (limits_of(), None),
        (limits_of("drop-head", 10, 100), None),
        (limits_of("spill"), None),
        (limits_of("spill", 10), (10, UNLIMITED)),
        (limits_of("spill", None, 100), (UNLIMITED, 100)),
        (limits_of(marks=Marks(1600, 800, 0, 0)), (1600 + 2 * 100, UNLIMITED)),
        (limits_of(marks=Marks(0, 0, 3200, 800)), (UNLIMITED, 3200 + 2 * 200)),
        (limits_of(marks=Marks(1600, 800, 3200, 800)), (1800, 3600)),
    ],
)  # fmt: skip
def test_the_window_is_what_a_queue_may_have_in_memory(limits: QueueLimits, window: tuple[int, int] | None) -> None:
    """Under flow control these are its marks plus twice their overshoot: beyond that it does not hold producers."""
    assert window_of(limits) == window


def test_a_queue_beyond_its_window_is_known_by_messages_and_by_bytes() -> None:
    for limits in (limits_of("spill", 2), limits_of("spill", None, 2 * BESIDE)):
        queue = filled(queue_of(limits), b"", b"")
        assert not queue.exceeds_window()
        assert filled(queue, b"").exceeds_window()
    assert not filled(queue_of(), *[b""] * 100).exceeds_window()


@given(st.lists(st.integers(0, 400), min_size=1, max_size=12), st.integers(1, 3000))
def test_the_oldest_are_dropped_until_the_depth_is_within_the_limit(sizes: list[int], limit: int) -> None:
    queue = filled(queue_of(), *(bytes([number]) * size for number, size in enumerate(sizes)))
    before = queue.depth_bytes
    queue.drop_oldest(limit)
    assert queue.depth_bytes <= limit
    assert (queue.dropping is Dropping.BEGUN) == (before > limit)
    left = bodies_of(queue.contents.pop(UNLIMITED, UNLIMITED, False))
    assert left == [bytes([number]) * size for number, size in enumerate(sizes)][len(sizes) - len(left) :]
    assert before > limit or len(left) == len(sizes)


def test_a_queue_that_drops_does_so_until_it_is_well_below_the_limit() -> None:
    """Otherwise its owner would get one report after another."""
    queue = filled(queue_of(), *[b""] * 10)
    queue.drop_oldest(5 * BESIDE)
    queue.dropping = DROPPING.after(queue.dropping, DropEvent.REPORT)
    queue.drop_oldest(5 * BESIDE)
    assert queue.dropping is Dropping.REPORTED, "it is at the limit"
    queue.contents.drop_head(2, UNLIMITED)
    queue.drop_oldest(5 * BESIDE)
    assert queue.dropping is Dropping.NO


def test_unacked_messages_are_not_dropped() -> None:
    queue = filled(queue_of(), *[b""] * 4)
    queue.contents.pop(3, UNLIMITED, False)
    queue.drop_oldest(1)
    assert (queue.contents.ready, queue.contents.unacked) == (0, 3)


def test_an_unprivileged_queue_stands_aside_and_drops_unless_it_was_consumed_from() -> None:
    for unprivileged_reason, consumed, aside in (
        (None, False, False), ("exclusive", False, True), ("exclusive", True, True), (UNCONSUMED, False, True),
        (UNCONSUMED, True, False),
    ):  # fmt: skip
        queue = filled(queue_of(unprivileged_reason=unprivileged_reason), *[b""] * 4)
        queue.usage.consumed = consumed
        assert (queue.stands_aside, queue.is_unprivileged) == (aside, aside), unprivileged_reason
        queue.drop_excess(0)
        assert queue.depth == 4, "there is no limit"
        queue.drop_excess(2 * BESIDE)
        assert queue.depth == (2 if aside else 4), unprivileged_reason


def test_the_next_event_is_the_first_expiry_of_a_message_a_lease_or_the_queue() -> None:
    queue = queue_of(message_ttl=50, expires=1000)
    assert queue.next_event() == 1_000_000
    filled(queue, b"", now=7)
    queue.contents.offered()
    assert queue.next_event() == 50_007
    lease = queue.leases["a"] = Lease("a", 1)
    lease.until = 500
    assert queue.next_event() == 500
    queue.move(Step.COME_HOME)
    assert queue.next_event() == NEVER
    queue.move(Step.REATTACH)
    queue.keeps_back = True
    lease.until = NEVER
    assert queue.next_event() == 1_000_000, "its messages stay, but not without end"
    queue.deletion.happened(DeletionEvent.ASK)
    assert queue.next_event() == NEVER, "the router is asked to delete it"


def test_redelivered_messages_say_how_often_only_with_a_delivery_limit() -> None:
    for limit, expected in ((3, b"x-delivery-count"), (None, b"")):
        queue = filled(queue_of(delivery_limit=limit), b"body")
        (item,) = queue.contents.pop(1, UNLIMITED, False)
        assert queue.as_sent(item) is item, "it is the first delivery"
        queue.contents.requeue(0, 1)
        (item,) = queue.contents.pop(1, UNLIMITED, False)
        sent = queue.as_sent(item)
        _, header, body = sent.batch.record(sent.first)
        assert expected in header and (b"x-delivery-count" in header) == bool(expected)
        assert (body, sent.sequence, sent.count, sent.redelivered) == (b"body", 0, 1, True)


def test_an_arriving_message_will_wait_without_consumers_or_behind_many_bytes() -> None:
    queue = queue_of()
    assert queue.lingers
    queue.ring.consumers[object()] = None  # type: ignore[index]
    assert not queue.lingers
    assert filled(queue, bytes(LINGER_BYTES)).lingers


def test_a_policy_changes_limits_and_features_but_not_priorities() -> None:
    queue = queue_of(max_priority=5)
    other = queue_of(limits_of("reject-publish", 3, marks=Marks.NONE))
    queue.exemption.lagging, queue.exemption.fed = True, "a binding"
    queue.apply_limits(other.limits, other.features, 0)
    assert (queue.rejects, queue.has_marks, queue.window, queue.exemption.fed) == (True, False, None, None)
    assert isinstance(queue.contents, PriorityQueue)
    marked = limits_of(marks=Marks(20, 10, 0, 0))
    queue.apply_limits(marked, other.features, 0)
    assert (queue.rejects, queue.has_marks) == (False, True)
    assert queue.saturation.marks == marked.marks
