"""Saturation of a queue: the points at which it stops and resumes producers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits.watermarks import Marks
from shard.queue.saturation import LENT_BYTES, LENT_COUNT, LENT_FOR, SETTLING, Saturation

PERCENT = 1000

BOTH = Marks(stop_count=10, resume_count=7, stop_bytes=100, resume_bytes=70)


@pytest.mark.parametrize(
    ("depths", "states"),
    [
        ([(10, 100), (11, 0), (10, 0), (8, 0), (7, 0)], [False, True, True, True, False]),
        ([(0, 101), (0, 100), (0, 71), (0, 70)], [True, True, True, False]),
        ([(11, 101), (7, 71), (8, 70), (7, 70), (10, 100)], [True, True, True, False, False]),
    ],
    ids=["count", "bytes", "both"],
)
def test_above_a_stop_mark_until_all_are_at_their_resume_marks(
    depths: list[tuple[int, int]], states: list[bool]
) -> None:
    state = Saturation(BOTH, 0)
    seen = []
    for count, nbytes in depths:
        state.update(count, nbytes, 0)
        seen.append(state.saturated)
    assert seen == states


def test_the_peak_is_of_one_time_above() -> None:
    state = Saturation(BOTH, 0)
    peaks = []
    for count, nbytes in [(5, 5), (11, 20), (15, 10), (8, 30), (7, 0), (9, 9), (12, 1)]:
        state.update(count, nbytes, 0)
        peaks.append((state.peak_count, state.peak_bytes))
    assert peaks == [(0, 0), (11, 20), (15, 20), (15, 30), (15, 30), (15, 30), (12, 1)]


@pytest.mark.parametrize(
    ("depths", "near"),
    [
        ([(8, 0), (9, 0), (10, 0), (8, 0), (9, 0), (7, 0), (9, 0)], [0, 1, 0, 0, 0, 0, 1]),
        ([(0, 89), (0, 90), (11, 0), (7, 70), (0, 95)], [0, 1, 0, 0, 1]),
        ([(12, 0), (9, 0), (0, 0)], [1, 0, 0]),
    ],
)
def test_near_a_mark_is_told_once_until_it_has_been_at_the_resume_marks(
    depths: list[tuple[int, int]], near: list[int]
) -> None:
    state = Saturation(BOTH, 0)
    assert [state.comes_near(*depth, percent=90) for depth in depths] == [bool(each) for each in near]


def check(state: Saturation, count: int, nbytes: int, now: int, calm: bool) -> tuple[bool, bool, bool]:
    """Check as at the end of a turn; return whether the state came near, went further over its marks, or changed."""
    if calm and state.is_calm(count, nbytes, now):
        return False, False, False
    return state.comes_near(count, nbytes, 90), state.exceeds(count, nbytes, now), state.update(count, nbytes, now)


STEPS = st.one_of(
    st.tuples(st.just("check"), st.integers(0, 14), st.integers(0, 140)),
    st.tuples(st.just("check"), st.integers(0, 6), st.integers(0, 60)),
    st.tuples(st.just("excuse"), st.integers(0, 3), st.integers(0, 30)),
    st.tuples(st.just("lend"), st.integers(8, 14), st.integers(0, 140)),
    st.tuples(st.just("govern"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("wait"), st.integers(0, 2), st.just(0)),
)


@given(st.lists(STEPS, max_size=40))
def test_a_look_that_is_spared_would_have_changed_nothing(steps: list[tuple[str, int, int]]) -> None:
    now = 0
    both = [Saturation(BOTH, now), Saturation(BOTH, now)]
    for step, count, nbytes in steps:
        found = []
        for calm, state in enumerate(both):
            if step == "check":
                found.append(check(state, count, nbytes, now, bool(calm)))
            elif step == "excuse":
                state.excuse(count, nbytes)
            elif step == "lend":
                state.lend(count, nbytes, 2, 20, PERCENT, now)
            elif step == "govern":
                state.set_marks((BOTH, Marks(stop_count=20, resume_count=5))[count], now)
        now += count * SETTLING if step == "wait" else 1
        assert len(set(found)) <= 1
        public = [{name: getattr(state, name) for name in Saturation.__slots__ if name[0] != "_"} for state in both]
        assert public[0] == public[1]


def test_without_marks_nobody_is_stopped() -> None:
    state = Saturation(Marks.NONE, 5, epoch=3)
    assert not state.update(2**40, 2**60, 9)
    assert (state.saturated, state.epoch, state.since) == (False, 3, 5)


@given(
    marks=st.builds(lambda a, b, c, d: Marks(max(a, b), min(a, b), max(c, d), min(c, d)), *[st.integers(0, 20)] * 4),
    depths=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=30),
    epoch=st.integers(0, 5),
)
def test_every_change_is_told_once_and_begins_an_epoch(marks: Marks, depths: list[tuple[int, int]], epoch: int) -> None:
    state = Saturation(marks, 1000, epoch)
    changes, was, since = 0, False, 1000
    for now, (count, nbytes) in enumerate(depths):
        above = bool(
            (marks.stop_count and count > marks.stop_count) or (marks.stop_bytes and nbytes > marks.stop_bytes)
        )
        drained = (not marks.stop_count or count <= marks.resume_count) and (
            not marks.stop_bytes or nbytes <= marks.resume_bytes
        )
        expected = True if above else (False if drained else was)
        assert state.update(count, nbytes, now) == (expected != was)
        if expected != was:
            changes, since = changes + 1, now
        was = expected
        assert (state.saturated, state.epoch, state.since) == (was, epoch + changes, since)
        assert not state.update(count, nbytes, now + 1)


def seconds(number: float) -> int:
    return int(number * 1e6)


def test_how_far_it_was_above_its_marks() -> None:
    state = Saturation(BOTH, 0)
    seen = []
    for count, nbytes in [(9, 100), (12, 90), (11, 0), (14, 130), (0, 0), (13, 0)]:
        changed = state.exceeds(count, nbytes, seconds(1))
        seen.append((changed, state.over_count, state.over_bytes))
    assert seen == [(False, 0, 0), (True, 2, 0), (False, 2, 0), (True, 4, 30), (False, 4, 30), (False, 4, 30)]


def test_what_is_never_held_is_not_above_the_marks_on_its_account() -> None:
    state = Saturation(BOTH, 0)
    state.exceeds(11, 0, seconds(1))
    state.excuse(50, 0)
    state.exceeds(60, 0, seconds(2))
    assert state.over_count == 1
    state.exceeds(62, 0, seconds(3))
    assert state.over_count == 2
    state.exceeds(5, 0, seconds(4))
    state.exceeds(20, 0, seconds(5))
    assert state.over_count == 10


def test_new_marks_are_given_time() -> None:
    state = Saturation(BOTH, 0)
    state.exceeds(20, 0, seconds(1))
    state.set_marks(Marks(stop_count=5, resume_count=1), seconds(2))
    state.exceeds(25, 0, seconds(3))
    assert state.over_count == 0
    state.exceeds(26, 0, seconds(8))
    assert state.over_count == 1


def test_time_until_it_is_full() -> None:
    state = Saturation(BOTH, 0)
    state.measure_growth(4, seconds(0.5))
    assert state.full_in(4, 40) is None
    state.measure_growth(4, seconds(2))
    assert state.full_in(6, 60) == 2.0
    assert state.full_in(6, 75) == 1.0, "by bytes, as two messages have as many as are missing"
    state.measure_growth(2, seconds(3))
    assert state.full_in(2, 20) is None


def test_time_until_it_is_full_by_bytes_alone() -> None:
    state = Saturation(Marks(stop_bytes=1000, resume_bytes=500), 0)
    state.measure_growth(4, seconds(2))
    assert state.full_in(4, 800) == 0.5
    assert state.full_in(4, 1001) == 0.0


def lent() -> Saturation:
    """Return a state saturated at 11 of 10, 4 unacked: its stop mark is 11 + 4 + (11 - 7), its resume mark 3 less."""
    state = Saturation(Marks(stop_count=10, resume_count=7, stop_bytes=0, resume_bytes=0), 0)
    state.update(11, 0, 0)
    assert state.lend(11, 0, 4, 0, PERCENT, SETTLING)
    return state


def test_what_is_lent_is_what_is_in_hand_and_the_way_to_the_resume_mark() -> None:
    state = lent()
    seen = []
    for count in (11, 19, 20, 17, 16, 19, 7):
        state.update(count, 0, SETTLING)
        state.exceeds(count, 0, SETTLING)
        seen.append(state.saturated)
    assert seen == [False, False, True, True, False, False, False]
    assert state.over_count == 1
    state.exceeds(21, 0, SETTLING)
    assert state.over_count == 2


def test_what_is_lent_grows_up_to_its_limit() -> None:
    """Marks of 500 messages and 1 MiB are lent ten times as much, a mark of 5 messages 1,000."""
    for stop, stop_bytes in ((500, 2**20), (5, 0), (0, 2**10)):
        state = Saturation(Marks(stop_count=stop, resume_count=stop, stop_bytes=stop_bytes, resume_bytes=stop_bytes), 0)
        most = stop and stop + max(10 * stop, LENT_COUNT)
        most_bytes = stop_bytes and stop_bytes + max(10 * stop_bytes, LENT_BYTES)
        depth, size, seen = stop, stop_bytes, []
        while state.lend(depth, size, 1, 1, PERCENT, 0):
            assert state.lent is not None
            depth, size = state.lent.stop_count, state.lent.stop_bytes
            seen.append((depth, size))
            assert len(seen) < 20
        assert seen[-1] == (most, most_bytes)
        state.update(most, most_bytes, 0)
        assert not state.saturated
        state.update(most + 1, most_bytes + 1, 0)
        assert state.saturated and not state.lend(most + 1, most_bytes + 1, 1, 1, PERCENT, 0) and state.over


def test_it_stays_lent_as_long_as_it_is_used() -> None:
    state, now = lent(), SETTLING
    for count, later in ((15, LENT_FOR), (10, LENT_FOR - 1), (15, LENT_FOR), (5, LENT_FOR - 1), (12, 0)):
        now += later
        state.update(count, 0, now)
        assert not state.saturated
    state.update(10, 0, now + LENT_FOR)
    state.update(11, 0, now + LENT_FOR)
    assert state.saturated


def test_what_was_lent_in_an_earlier_life_is_lent_for_as_long_as_at_first() -> None:
    state, later = lent(), Saturation(Marks(stop_count=10, resume_count=7, stop_bytes=0, resume_bytes=0), 0)
    later.keep_lent(*state.lent_beyond(), SETTLING)
    assert later.lent == state.lent
    later.update(19, 0, SETTLING)
    assert not later.saturated
    later.update(10, 0, SETTLING + LENT_FOR)
    assert later.lent is None


def test_marks_that_are_raised_beyond_what_is_lent_count() -> None:
    state = lent()
    state.set_marks(Marks(stop_count=30, resume_count=20, stop_bytes=0, resume_bytes=0), SETTLING)
    for count, saturated in ((30, False), (31, True), (21, True), (20, False)):
        state.update(count, 0, SETTLING)
        assert state.saturated == saturated


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, LENT_FOR), st.booleans())))
def test_it_is_saturated_beyond_what_is_lent_and_free_at_its_resume_mark(steps: list[tuple[int, int, bool]]) -> None:
    state, now = Saturation(Marks(stop_count=10, resume_count=7, stop_bytes=0, resume_bytes=0), 0), 0
    for count, later, lends in steps:
        now += later
        state.update(count, 0, now)
        if lends and state.saturated:
            state.lend(count, 0, 3, 0, PERCENT, now)
            state.update(count, 0, now)
            assert not state.saturated
        most = 10 if state.lent is None else state.lent.stop_count
        assert state.saturated or count <= most
        assert not state.saturated or count > 7
