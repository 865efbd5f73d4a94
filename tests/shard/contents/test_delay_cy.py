"""Delay queues: the times of messages in memory, paged out and after a restart; compiled and plain against a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.properties import encode_properties
from penstock.batch.batch_cy import HAS_HEADERS, PERSISTENT, Batch, BatchBuilder
from shard.contents.delay_cy import DUE, DelayQueue
from shard.contents.queue_cy import NEVER, UNLIMITED
from tests.shard.store.test_store import OpenedStore
from tests.twins import both_ways

Load = Callable[[str], ModuleType]
MS = 1000


def batch_of(builder: Any, *messages: tuple[bytes, int]) -> Any:
    """Return a batch of bodies, each with its delay in milliseconds."""
    for body, delay in messages:
        header = b"\0\x3c\0\0" + bytes(8) + encode_properties({"headers": {"other": "x", "x-delay": delay}})
        builder.add(b"\1x\1k", header, body, HAS_HEADERS | PERSISTENT)
    return builder.finish()


def messages(*of: tuple[bytes, int]) -> Batch:
    batch: Batch = batch_of(BatchBuilder(), *of)
    return batch


def left(queue: Any) -> list[bytes]:
    """Return the bodies of the messages that have left since the last call, in order."""
    found = []
    for reason, item in queue.take_dead():
        assert reason == DUE
        found += [item.batch.record(item.first + i)[2] for i in range(item.count)]
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(st.integers(0, 12), min_size=1, max_size=6)),
        st.tuples(st.just("pass"), st.integers(0, 6)),
        st.tuples(st.just("drop"), st.integers(0, 6)),
        st.tuples(st.just("bytes"), st.integers(0, 9)),
        st.tuples(st.just("purge"), st.just(0)),
    ),
    max_size=30,
)


@both_ways
@given(steps=steps)
def test_against_a_model(load: Load, steps: list[tuple[str, Any]]) -> None:
    queue = load("shard.contents.delay_cy").DelayQueue(1, None)
    queue.configure(-1, False, -1)
    builder = load("penstock.batch.batch_cy").BatchBuilder
    waiting: list[tuple[int, bytes]] = []  # in order of arrival
    now, made = 1, 0
    for kind, value in steps:
        if kind == "enqueue":
            bodies = [b"%d" % n for n in range(made, made + len(value))]
            made += len(value)
            queue.enqueue(batch_of(builder(), *zip(bodies, value, strict=True)), 0, len(value), now)
            waiting += [(now + delay * MS, body) for body, delay in zip(bodies, value, strict=True)]
        elif kind == "pass":
            now += value * MS
            due = [body for at, body in waiting if at <= now]
            waiting = [each for each in waiting if each[0] > now]
            assert queue.next_expiry() <= min((at for at, _ in waiting), default=NEVER)
            assert queue.expire(now) == len(due)
            assert sorted(left(queue)) == sorted(due)
            assert queue.next_expiry() > now
        elif kind == "purge":
            assert queue.purge() == len(waiting)
            waiting = []
        else:
            most = (value, UNLIMITED) if kind == "drop" else (UNLIMITED, value)
            queue.drop_head(*most)
            while len(waiting) > most[0] or sum(len(body) for _, body in waiting) > most[1]:
                del waiting[0]
            assert not queue.dead
        assert (queue.ready, queue.unacked) == (len(waiting), 0)
        assert queue.ready_bytes == sum(len(body) for _, body in waiting)
        shown = [
            segment.batch.record(segment.first + offset + i)[2]
            for segment, offset, count in queue.survivors()
            for i in range(count)
        ]
        assert shown == [body for _, body in waiting]
    assert queue.weight() >= 0 and (queue.weight() == 0) == (not waiting)


def opened(path: Path) -> OpenedStore:
    def make(journal: Any) -> DelayQueue:
        queue = DelayQueue(7, None, 1 << 36, journal, True)
        queue.configure(-1, False, -1)
        return queue

    return OpenedStore(path, make)


def test_times_survive_a_restart_and_only_what_was_due_before_may_have_been_sent(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.queue.enqueue(messages((b"late", 50), (b"first", 5), (b"sent", 6), (b"early", 20)), 0, 4, MS)
    store.queue.expire(10 * MS)
    ((_, item),) = store.queue.take_dead()
    store.queue.buried(item, 0, 1)  # `sent` has left, but did not arrive yet
    store.commit()
    store.end()
    store = opened(tmp_path)
    assert store.queue.ready == 3 and store.queue.next_expiry() == 7 * MS
    store.queue.expire(8 * MS)
    store.queue.expire(30 * MS)
    again = [(item.batch.record(item.first)[2], item.redelivered) for _, item in store.queue.take_dead()]
    assert again == [(b"sent", True), (b"early", False)]
    assert store.queue.next_expiry() == 51 * MS
    store.end()


def test_small_batches_are_merged_on_their_way_to_the_store_and_due_at_their_own_times(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(500):
        store.queue.enqueue(messages((b"%d" % number, 1 + number * 7 % 500)), 0, 1, MS)
    store.commit()
    before = store.queue.weight()
    store.queue.page_out(UNLIMITED, 0)
    store.commit()
    store.queue.page_out(UNLIMITED, 0)
    assert store.queue.weight() < before // 20
    for now in range(1, 502, 20):
        store.queue.expire(now * MS)
        due = [number for number in range(500) if now - 20 < 1 + (1 + number * 7 % 500) <= now]
        assert sorted(map(int, left(store.queue))) == due
    assert store.queue.ready == store.queue.weight() == 0
    store.end()


def test_only_so_much_leaves_at_once(tmp_path: Path) -> None:
    queue = DelayQueue(1, None)
    queue.configure(-1, False, -1)
    for _ in range(40):
        queue.enqueue(messages((b"x" * 100_000, 5)), 0, 1, 0)
    assert 10 <= queue.expire(10 * MS) <= 12
    assert queue.next_expiry() <= 10 * MS
    total = len(left(queue))
    while queue.ready:
        assert queue.expire(10 * MS) <= 12
        total += len(left(queue))
    assert total == 40


def test_what_is_damaged_is_dropped_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(3):
        store.queue.enqueue(messages((b"%d" % number * 70_000, 5)), 0, 1, MS)
    store.commit()
    store.queue.page_out(UNLIMITED, 0)
    store.queue.survivors()[1][0].damaged = True
    assert store.queue.drop_damaged() == 1
    store.queue.expire(10 * MS)
    assert [body[:1] for body in left(store.queue)] == [b"0", b"2"]
    store.end()


def test_messages_move_with_their_times() -> None:
    old, new = DelayQueue(1, None), DelayQueue(1, None)
    for queue in (old, new):
        queue.configure(-1, False, -1)
    old.enqueue(messages((b"a", 30), (b"b", 5), (b"c", 20)), 0, 3, MS)
    old.expire(10 * MS)
    for segment, offset, count in old.survivors():
        builder = BatchBuilder()
        builder.extend(segment.batch, segment.first + offset, count)
        expiries = segment.expiries[8 * offset : 8 * (offset + count)]
        new.adopt(segment.sequence + offset, builder.finish(), segment.again, segment.expiry, expiries)
    new.go_on_from(*old.positions()[0])
    assert new.ready == 2 and new.next_expiry() == 21 * MS
    new.enqueue(messages((b"d", 1)), 0, 1, 10 * MS)
    new.expire(25 * MS)
    assert sorted(left(new)) == [b"c", b"d"]
    new.expire(31 * MS)
    assert left(new) == [b"a"]
