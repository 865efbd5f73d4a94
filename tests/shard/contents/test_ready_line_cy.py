"""The ready messages of a queue, the paging of their contents, and the counts of unreadable messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.batch.batch_cy import PERSISTENT, Batch
from shard.contents.errors import StoreError
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.store.journal import Journal
from tests.shard.store.test_store import OpenedStore, batch, bodies
from tests.twins import both_ways

Load = Callable[[str], ModuleType]


def queue_of(load: Load, *counts: int) -> Any:
    """Return a queue with one batch for each of these counts of messages."""
    queue = load("shard.contents.queue_cy").Queue(7, None)
    for count in counts:
        builder = load("penstock.batch.batch_cy").BatchBuilder()
        for _ in range(count):
            builder.add(b"", b"", b"x", 0)
        queue.enqueue(builder.finish(), 0, count)
    return queue


@both_ways
def test_requeued_messages_are_ready_before_those_from_the_cursor_on(load: Load) -> None:
    queue = queue_of(load, 3, 3)
    assert (queue.first_ready(), queue.cursor) == (0, 0)
    queue.pop(4, UNLIMITED, False)
    assert [queue.is_ready(number) for number in range(6)] == [False] * 4 + [True] * 2
    queue.requeue(1, 2)
    assert (queue.first_ready(), queue.cursor) == (1, 4)
    assert [queue.is_ready(number) for number in range(6)] == [False, True, True, False, True, True]
    assert [(item.sequence, item.count) for item in queue.pop(3, UNLIMITED, False)] == [(1, 2), (4, 1)]


@both_ways
def test_survivors_are_the_ready_messages_segment_by_segment(load: Load) -> None:
    queue = queue_of(load, 3, 2, 2)
    assert [each[1:] for each in queue.survivors()] == [(0, 3), (0, 2), (0, 2)]
    queue.pop(4, UNLIMITED, False)
    queue.requeue(0, 1)
    queue.requeue(2, 1)
    queue.settle(1, 1)
    assert [(segment.sequence, *rest) for segment, *rest in queue.survivors()] == [
        (0, 0, 1),
        (0, 2, 1),
        (3, 1, 1),
        (5, 0, 2),
    ]


@pytest.mark.parametrize(("ends_in_order", "redelivered"), [(False, [True] * 3), (True, [True, False, False])])
def test_the_next_incarnation_knows_what_was_delivered(
    tmp_path: Path, ends_in_order: bool, redelivered: list[bool]
) -> None:
    """Exactly, if the position was recorded at the end; otherwise the lease covers more than was delivered."""
    opened = OpenedStore(tmp_path)
    for _ in range(3):
        opened.queue.enqueue(batch(b"x"), 0, 1)
    opened.queue.pop(1, UNLIMITED, False)
    if ends_in_order:
        opened.queue.record_position()
    opened.commit()
    opened.end()
    opened = OpenedStore(tmp_path)
    assert [again for _, again in bodies(opened.queue)] == redelivered
    opened.end()


def test_what_is_beyond_a_window_is_paged_out(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for _ in range(20):
        opened.queue.enqueue(batch(b"x" * 70_000), 0, 1)
    opened.commit()
    opened.queue.page_out_beyond(5, UNLIMITED, 0)
    (first, *_) = opened.queue.ahead(opened.queue.first_ready(), UNLIMITED)
    assert first.sequence - opened.queue.first_ready() == 5
    assert opened.queue.page_out_beyond(5, UNLIMITED, 0) == 0
    opened.end()


def test_what_is_paged_out_comes_back(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    expected = []
    for i in range(40):
        opened.queue.enqueue(batch(b"%d" % i, b"x" * 1000, flags=PERSISTENT if i % 2 else 0), 0, 2)
        expected += [b"%d" % i, b"x" * 1000]
    depth, weight = opened.queue.ready_whole, opened.queue.weight()
    while opened.queue.page_out(UNLIMITED, 0):
        opened.commit()
    assert opened.queue.weight() == 0
    assert opened.queue.ready_whole == depth
    (wanted, *_) = opened.queue.ahead(opened.queue.first_ready(), 1)
    opened.queue.install(wanted, opened.journal.load(7, wanted))
    assert [body for body, _ in bodies(opened.queue)] == expected
    assert (opened.queue.paged, opened.queue.weight()) == (0, weight)
    opened.end()


def test_a_head_that_is_kept_stays_in_memory(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for _ in range(20):
        opened.queue.enqueue(batch(b"x" * 1000), 0, 1)
    for _ in range(2):
        opened.commit()
        opened.queue.page_out(UNLIMITED, 5000)
    assert 0 < opened.queue.paged < 9 * opened.queue.ready_whole // 10
    assert opened.queue.ahead(opened.queue.first_ready(), 4000) == []
    opened.end()


UNREADABLE = st.lists(
    st.tuples(
        st.sampled_from(("take", "take settled", "settle", "requeue", "page out", "drop", "unreadable", "readable")),
        st.integers(1, 6),
    ),
    max_size=40,
)


@given(
    sizes=st.lists(st.lists(st.sampled_from((0, 1, 5000)), min_size=1, max_size=6), min_size=1, max_size=4),
    steps=UNREADABLE,
)
@example(sizes=[[5000, 1]], steps=[("take", 1), ("page out", 1), ("unreadable", 1), ("settle", 1), ("drop", 1)])
@example(sizes=[[1, 5000]], steps=[("take", 1), ("page out", 1), ("unreadable", 1), ("requeue", 1)])
def test_what_cannot_be_read_is_never_counted_below_nothing(
    sizes: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    """Unreadable messages have estimated sizes: the gauges take no negative number, and no messages mean no bytes."""
    read = {}
    readable = True

    def load(key: bytes, count: int, spilled: bool) -> Batch:
        if not readable:
            raise StoreError(Path("store"), "cannot be read")
        return read[key]

    journal = Journal(load)
    queue = Queue(7, None, 0, journal, True)
    for bodies_of in sizes:
        queue.enqueue(batch(*(bytes(size) for size in bodies_of)), 0, len(bodies_of))
    commit = journal.hand_over()
    for key, parts in commit.kept.contents.items():
        assert parts is not None
        read[key] = Batch(*map(bytes, parts))
    journal.written()
    in_hand: list[int] = []
    for step, count in steps:
        if step in ("readable", "unreadable"):
            readable = step == "readable"
        elif step == "page out":
            queue.page_out_front(UNLIMITED, 0, False)
            queue.page_out(UNLIMITED, 0)
        elif step == "drop":
            with suppress(StoreError):
                queue.drop_head(max(queue.ready - count, 0), UNLIMITED)
        elif step.startswith("take"):
            with suppress(StoreError):
                for item in queue.pop(count, UNLIMITED, step == "take settled"):
                    in_hand += range(item.sequence, item.sequence + item.count) if step == "take" else ()
        elif in_hand:
            (queue.settle if step == "settle" else queue.requeue)(in_hand.pop(0), 1)
        counts = queue.ready_bytes, queue.ready_whole, queue.unacked_bytes, queue.unacked_whole, queue.weight()
        assert min(counts) >= 0
        if queue.ready == 0:
            assert (queue.ready_bytes, queue.ready_whole) == (0, 0)
        if queue.unacked == 0:
            assert (queue.unacked_bytes, queue.unacked_whole) == (0, 0)
    readable = True
    for sequence in in_hand:
        queue.settle(sequence, 1)
    queue.purge()
    assert (queue.ready_bytes, queue.unacked_bytes, queue.weight(), queue.paged) == (0, 0, 0, 0)
