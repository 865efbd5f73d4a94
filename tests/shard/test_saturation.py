"""When a queue stops its producers and when it lets them go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.watermarks import Marks
from shard.saturation import Saturation

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
    for count, octets in depths:
        state.update(count, octets, 0)
        seen.append(state.saturated)
    assert seen == states


def test_the_peak_is_of_one_time_above() -> None:
    state = Saturation(BOTH, 0)
    peaks = []
    for count, octets in [(5, 5), (11, 20), (15, 10), (8, 30), (7, 0), (9, 9), (12, 1)]:
        state.update(count, octets, 0)
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
    for now, (count, octets) in enumerate(depths):
        above = bool(
            (marks.stop_count and count > marks.stop_count) or (marks.stop_bytes and octets > marks.stop_bytes)
        )
        drained = (not marks.stop_count or count <= marks.resume_count) and (
            not marks.stop_bytes or octets <= marks.resume_bytes
        )
        expected = True if above else (False if drained else was)
        assert state.update(count, octets, now) == (expected != was)
        if expected != was:
            changes, since = changes + 1, now
        was = expected
        assert (state.saturated, state.epoch, state.since) == (was, epoch + changes, since)
        assert not state.update(count, octets, now + 1)
