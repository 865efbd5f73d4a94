"""The causes for which a shard accepts nothing from producers: their beginning and end, and the texts about them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.watermarks import Marks
from shard.turns.room import FULL, MEMORY, PROCESSES, REMINDER, SPILL, UNFLUSHED, UNWRITTEN, Room, Use, share

MEMORY_MARKS = Marks(0, 0, 100, 80)
GIB = 1 << 30


def room_of(store: int = 0, now: int = 0, epoch: int = 0) -> Room:
    """Return a room with memory for 100 bytes and a store of this limit."""
    full = Marks(0, 0, store, store * 95 // 100)
    return Room({MEMORY: MEMORY_MARKS, PROCESSES: Marks.NONE, FULL: full, SPILL: Marks.NONE}, now, epoch)


def test_memory_that_is_used_up() -> None:
    room = room_of(0, 5, epoch=7)
    assert not room.set_use(MEMORY, 100, 10)
    assert (room.saturated, room.reason, room.epoch, room.since) == (False, "", 7, 5)
    assert room.set_use(MEMORY, 101, 20)
    assert (room.saturated, room.epoch, room.since) == (True, 8, 20)
    assert room.reason == "its share of the node's memory is used up"
    assert not room.set_use(MEMORY, 81, 30)
    assert room.set_use(MEMORY, 80, 40)
    assert (room.saturated, room.reason, room.epoch, room.since) == (False, "", 9, 40)


def test_another_share_of_the_node() -> None:
    room = room_of(1000)
    assert not room.set_use(MEMORY, 90, 1)
    less = {**room.limits, MEMORY: Marks(0, 0, 50, 40)}
    assert room.limit(less, 2)
    assert (room.saturated, room.reason) == (True, "its share of the node's memory is used up")
    assert not room.limit(less, 3)
    assert room.limit({**less, MEMORY: MEMORY_MARKS, FULL: Marks(0, 0, 500, 400)}, 4) is False  # not yet below 80
    assert room.limit({**less, MEMORY: Marks(0, 0, 200, 150)}, 5)
    assert not room.saturated


def test_a_full_store_has_room_again_a_little_below_its_limit() -> None:
    room = room_of(80 * GIB)
    assert not room.set_use(FULL, 80 * GIB, 1)
    assert room.set_use(FULL, 80 * GIB + 1, 2)
    assert room.reason == "its store is full: 80 of 80 GiB"
    assert not room.set_use(FULL, 77 * GIB, 3)
    assert room.reason == "its store is full: 77 of 80 GiB"
    assert room.set_use(FULL, 76 * GIB, 4)
    assert room.reason == ""


def test_a_store_without_a_limit_is_never_full() -> None:
    room = room_of(0)
    assert not room.set_use(FULL, 1 << 60, 1)


def test_a_store_that_cannot_have_more_is_full_before_its_limit() -> None:
    room = room_of(80 * GIB)
    assert room.store_overflows(50 * GIB, 1)
    assert room.reason == "its store is full: 50 of 50 GiB"
    assert not room.set_use(FULL, 49 * GIB, 2)
    assert room.set_use(FULL, 47 * GIB, 3)
    assert not room.set_use(FULL, 60 * GIB, 4)


def test_trouble_lasts_until_the_store_is_written_again() -> None:
    room = room_of(0)
    assert room.store_fails(UNWRITTEN, "No space left on device", 1_000_000)
    assert room.reason == "its store cannot be written: No space left on device"
    assert not room.store_fails(UNWRITTEN, "Input/output error", 2_000_000)
    assert room.reason == "its store cannot be written: Input/output error"
    assert not room.store_works(UNFLUSHED, 3_000_000)
    assert room.store_works(UNWRITTEN, 4_000_000)
    assert not room.store_works(UNWRITTEN, 5_000_000)
    assert [(news.begins, news.again, news.seconds) for news in room.take_news()] == [
        (True, False, 0.0),
        (False, False, 3.0),
    ]
    assert room.take_news() == []


def test_trouble_that_lasts_is_told_of_from_time_to_time() -> None:
    room = room_of(0)
    seconds = range(200)
    for second in seconds:
        room.store_fails(UNWRITTEN, "Read-only file system", second * 1_000_000)
    news = room.take_news()
    assert [each.again for each in news] == [False, True, True, True]
    assert [each.seconds for each in news] == [0, 60, 120, 180]
    assert REMINDER == 60_000_000


def test_each_cause_ends_by_itself() -> None:
    room = room_of(10)
    room.set_use(MEMORY, 101, 1)
    room.set_use(FULL, 11, 2)
    room.store_fails(UNWRITTEN, "No space left on device", 3)
    assert len(room.reason.split("; ")) == 3
    room.set_use(MEMORY, 0, 4)
    room.store_works(UNWRITTEN, 5)
    assert (room.saturated, room.epoch, room.since) == (True, 1, 1)
    assert room.set_use(FULL, 0, 6)
    assert (room.saturated, room.epoch, room.since) == (False, 2, 6)
    assert [news.cause for news in room.take_news()] == [MEMORY, FULL, UNWRITTEN, MEMORY, UNWRITTEN, FULL]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("memory"), st.integers(0, 150)),
        st.tuples(st.just("store"), st.integers(0, 150)),
        st.tuples(st.just("overflow"), st.integers(0, 150)),
        st.tuples(st.sampled_from((UNWRITTEN, UNFLUSHED)), st.booleans()),
    )
)


@given(STEPS)
def test_closed_as_long_as_there_is_a_cause(steps: list[tuple[str, int]]) -> None:
    room = room_of(100)
    for now, (step, value) in enumerate(steps, 1):
        before, epoch = room.saturated, room.epoch
        if step == "memory":
            changed = room.set_use(MEMORY, value, now)
        elif step == "store":
            changed = room.set_use(FULL, value, now)
        elif step == "overflow":
            changed = room.store_overflows(value, now)
        elif value:
            changed = room.store_fails(step, "why", now)
        else:
            changed = room.store_works(step, now)
        assert room.saturated == bool(room.causes) == bool(room.reason)
        assert changed == (before != room.saturated) == (epoch != room.epoch) == (room.since == now)
    reported = room.take_news()
    assert sum(news.begins and not news.again for news in reported) - sum(not news.begins for news in reported) == len(
        room.causes
    )


@pytest.mark.parametrize(
    ("nbytes", "limit", "text"),
    [
        (80 * GIB, 80 * GIB, "80 of 80 GiB"),
        (int(79.96 * GIB), 80 * GIB, "79.96 of 80 GiB"),
        (3 << 20, 2 << 20, "3 of 2 MiB"),
        (5, 7, "5 of 7 bytes"),
        (0, 0, "0 of 0 bytes"),
    ],
)
def test_share(nbytes: int, limit: int, text: str) -> None:
    assert share(nbytes, limit) == text


def test_memory_of_processes_and_the_spill() -> None:
    marks = Marks(0, 0, 8 * GIB, 7 * GIB)
    room = Room({MEMORY: MEMORY_MARKS, PROCESSES: marks, FULL: Marks.NONE, SPILL: marks}, 0)
    assert not room.is_scarce(PROCESSES)
    assert room.set_use(PROCESSES, 9 * GIB, 1)
    assert room.is_scarce(PROCESSES) and not room.is_scarce(SPILL)
    assert not room.set_use(SPILL, 9 * GIB, 2)
    assert room.reason == "the node's processes use up its memory: 9 of 8 GiB; its spill is full: 9 of 8 GiB"
    assert not room.set_use(PROCESSES, 7 * GIB, 3)
    assert not room.is_scarce(PROCESSES)
    assert room.set_use(SPILL, 7 * GIB, 4)


def test_the_resource_that_is_nearest_to_its_mark() -> None:
    room = room_of(1000)
    assert room.nearest() == Use(0, MEMORY)
    room.set_use(MEMORY, 80, 1)
    room.set_use(FULL, 900, 1)
    room.set_use(PROCESSES, 1 << 60, 1)
    assert not room.is_scarce(PROCESSES)  # it has no limit
    assert room.nearest().thousandths == 0
    room.set_use(MEMORY, 85, 2)
    assert room.nearest() == Use(250, MEMORY)
    room.set_use(FULL, 975, 3)
    assert room.nearest() == Use(500, FULL)
    room.set_use(MEMORY, 200, 4)
    assert room.nearest() == Use(1000, MEMORY)
