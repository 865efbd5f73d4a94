"""The segments of a queue: paging contents out and in, merging segments, and the memory they use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.amqp.properties import encode_properties
from penstock.batch.batch_cy import HAS_EXPIRATION, PERSISTENT, Batch, BatchBuilder
from shard.contents.queue_cy import UNLIMITED
from shard.store.journal import Journal
from tests.shard.store.test_store import OpenedStore, batch, bodies
from tests.twins import load_compiled, load_plain

Load = Callable[[str], ModuleType]
SEGMENT_WEIGHT = 1100


def test_small_messages_that_are_spilled_become_one_segment(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for i in range(500):
        opened.queue.enqueue(batch(b"%d" % i, flags=0), 0, 1)
    opened.queue.page_out(UNLIMITED, 0)
    commit = opened.journal.hand_over()
    assert len(commit.spilled.index) == 1
    assert not commit.promises
    opened.store.write(commit)
    opened.queue.page_out(UNLIMITED, 0)
    opened.end()
    opened = OpenedStore(tmp_path)
    assert [body for body, _ in bodies(opened.queue)] == [b"%d" % i for i in range(500)]
    opened.end()


def test_messages_that_expire_by_themselves_keep_their_times_in_one_segment(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    for number in range(100):
        builder = BatchBuilder()
        header = b"\0\x3c\0\0" + bytes(8) + encode_properties({"expiration": str(1 + number // 10)})
        builder.add(b"\0\1q", header, b"%d" % number, PERSISTENT | HAS_EXPIRATION)
        opened.queue.enqueue(builder.finish(), 0, 1, 0)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    assert len(opened.queue.survivors()) == 1
    opened.end()
    opened = OpenedStore(tmp_path)
    for milliseconds in range(1, 11):
        assert opened.queue.expire(milliseconds * 1000) == 10
    assert opened.queue.ready == 0
    opened.end()


def test_messages_that_may_be_replaced_stay_apart(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.merges = False
    numbers = [opened.queue.enqueue(batch(b"%d" % i, flags=0), 0, 1) for i in range(3)]
    opened.queue.page_out(UNLIMITED, 0)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    assert opened.queue.replace(numbers[1], batch(b"new", flags=0), 0)
    assert [body for body, _ in bodies(opened.queue)] == [b"0", b"new", b"2"]
    opened.end()


def test_small_messages_that_the_store_has_become_one_segment(tmp_path: Path) -> None:
    """Otherwise each single publish of a backlog would keep a record in memory. Other segments stay as written."""
    opened = OpenedStore(tmp_path)
    large = opened.queue.enqueue(batch(b"0" * 5000), 0, 1)
    for i in range(1, 500):
        opened.queue.enqueue(batch(b"%d" % i), 0, 1)
    opened.commit()
    nbytes = opened.journal.nbytes
    opened.queue.page_out(UNLIMITED, 0)
    assert opened.queue.weight() == sum(2 + 14 + len(b"%d" % i) + 64 for i in range(1, 500)) + SEGMENT_WEIGHT
    commit = opened.journal.hand_over()
    assert sum(record is not None for record in commit.kept.index.values()) == 1
    assert sum(record is None for record in commit.kept.index.values()) == 498
    assert opened.journal.nbytes == nbytes
    opened.store.write(commit)
    opened.journal.written()
    opened.queue.page_out(UNLIMITED, 0)
    assert opened.queue.weight() == 0
    assert opened.journal.is_empty()
    assert [segment.sequence for _, segment in opened.store.segments()] == [large, large + 1]
    opened.end()
    opened = OpenedStore(tmp_path)
    assert [body for body, _ in bodies(opened.queue)] == [b"0" * 5000, *(b"%d" % i for i in range(1, 500))]
    opened.end()


def _refuse(key: bytes, count: int, spilled: bool) -> Batch:
    raise AssertionError(f"{key!r} was read")


def test_purging_what_is_paged_out_reads_nothing(tmp_path: Path) -> None:
    opened = OpenedStore(tmp_path)
    opened.queue.enqueue(batch(b"a", b"b"), 0, 2)
    opened.commit()
    opened.queue.page_out(UNLIMITED, 0)
    opened.journal.read = _refuse
    assert opened.queue.purge() == 2
    assert (opened.queue.ready_bytes, opened.queue.paged) == (0, 0)
    opened.commit()
    assert list(opened.store.segments()) == []
    opened.end()


class Twin:
    """A queue, compiled or plain, whose journal writes to dictionaries."""

    def __init__(self, load: Load) -> None:
        self.batch_module = load("penstock.batch.batch_cy")
        self.written: dict[tuple[bytes, bool], Any] = {}
        self.journal = Journal(lambda key, count, spilled: self.written[key, spilled])
        self.queue = load("shard.contents.queue_cy").Queue(7, None, 0, self.journal, True)

    def enqueue(self, sizes: list[int], flags: int) -> None:
        builder = self.batch_module.BatchBuilder()
        for size in sizes:
            builder.add(b"\0\0", bytes(14), bytes(size), flags)
        self.queue.enqueue(builder.finish(), 0, len(sizes))

    def commit(self) -> None:
        commit = self.journal.hand_over()
        for spilled, part in ((False, commit.kept), (True, commit.spilled)):
            for key, pair in part.contents.items():
                self.written.pop((key, spilled), None)
                if pair is not None:
                    self.written[key, spilled] = self.batch_module.Batch(*map(bytes, pair))
        self.journal.written()

    def read_ahead(self, nbytes: int) -> None:
        if self.queue.ready:
            for segment in self.queue.ahead(self.queue.first_ready(), nbytes):
                if not self.journal.waits(7, segment):
                    self.queue.install(segment, self.journal.load(7, segment))

    def counts(self) -> tuple[int, ...]:
        queue = self.queue
        return queue.ready, queue.unacked, queue.ready_whole, queue.unacked_whole, queue.weight(), queue.paged


PAGING = st.lists(
    st.one_of(
        st.tuples(
            st.just("enqueue"),
            st.lists(st.sampled_from((0, 10, 3000)), min_size=1, max_size=4),
            st.sampled_from((0, PERSISTENT)),
        ),
        st.tuples(st.just("commit")),
        st.tuples(st.sampled_from(("take", "take", "settle", "requeue", "purge"))),
        st.tuples(st.sampled_from(("page out", "read ahead")), st.sampled_from((1, 4000, UNLIMITED))),
        st.tuples(st.just("page out front"), st.booleans()),
    ),
    max_size=40,
)


@given(PAGING)
@example([("enqueue", [10, 3000], PERSISTENT), ("commit",), ("page out", UNLIMITED), ("read ahead", 1), ("settle",)])
def test_the_memory_of_a_queue_is_that_of_the_segments_with_contents(steps: list[tuple[Any, ...]]) -> None:
    """`weight` is a running sum; the plain twin exposes its segments, so the test can add them up."""
    twins = Twin(load_compiled), Twin(load_plain)
    unacked: list[int] = []
    for step, *arguments in steps:
        taken: list[list[int]] = []
        number = unacked.pop(len(unacked) // 2) if step in ("settle", "requeue") and unacked else None
        for twin in twins:
            if step == "enqueue":
                twin.enqueue(*arguments)
            elif step == "take":
                items = twin.queue.pop(2, UNLIMITED, False)
                taken.append([item.sequence + i for item in items for i in range(item.count)])
            elif step == "commit":
                twin.commit()
            elif step == "purge":
                twin.queue.purge()
            elif step == "page out":
                twin.queue.page_out(arguments[0], 0)
            elif step == "page out front":
                twin.queue.page_out_front(UNLIMITED, 0, arguments[0])
            elif step == "read ahead":
                twin.read_ahead(arguments[0])
            elif number is not None:
                (twin.queue.settle if step == "settle" else twin.queue.requeue)(number, 1)
        if taken:
            assert taken[0] == taken[1]
            unacked += taken[0]
        compiled, plain = twins
        assert compiled.counts() == plain.counts()
        there = [segment for segment in plain.queue.segments if segment is not None and segment.live]
        assert plain.queue.weight() == sum(segment.weight() for segment in there if segment.batch is not None)
        assert plain.queue.paged == sum(segment.weight() for segment in there if segment.batch is None)


def test_settled_segments_behind_an_unacked_message_leave_the_list() -> None:
    """Otherwise one message that stays unacked for long would keep a record of every later one."""
    queue = Twin(load_plain).queue
    for number in range(1000):
        queue.enqueue(batch(b"%d" % number), 0, 1)
        (item,) = queue.pop(1, UNLIMITED, number > 0)
        assert item.sequence == number
    assert len(queue.segments) < 100
    assert queue.batch_of(0).record(0)[2] == b"0"
