"""Axes: few round values, all in the plot."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.axes import Span, ceiling
from tests.pipeline.report.reports import DAY_US, MINUTE_US, SINCE

LONG_LABELS = re.compile(r"\d\d:\d\d:\d\d")


def test_ticks_are_round_times_of_the_range() -> None:
    day = Span(SINCE, SINCE + DAY_US)
    assert [tick.label for tick in day.ticks()] == ["12:00", "18:00", "Nov 21", "06:00"]
    minute = Span(SINCE, SINCE + MINUTE_US)
    assert [(round(tick.at), tick.label, tick.anchor) for tick in minute.ticks()] == [
        (0, "11:00:00", "start"), (33, "11:00:20", "middle"), (67, "11:00:40", "middle"), (100, "11:01:00", "end"),
    ]  # fmt: skip
    month = Span(SINCE, SINCE + 30 * DAY_US)
    assert all(re.fullmatch(r"[A-Z][a-z]{2} \d+", tick.label) for tick in month.ticks())


@given(st.integers(0, 2 * 10**15), st.integers(1, 400 * DAY_US))
def test_a_range_has_few_ticks_in_order_that_do_not_touch_on_a_phone(since: int, length: int) -> None:
    ticks = Span(since, since + length).ticks()
    places = [tick.at for tick in ticks]
    assert places == sorted(places)
    assert all(0 <= at <= 100 for at in places)
    assert len(ticks) <= (4 if any(LONG_LABELS.match(tick.label) for tick in ticks) else 5)
    if length >= MINUTE_US:
        assert len(ticks) >= 1


@given(st.floats(1e-3, 1e12))
def test_levels_are_round_and_below_the_upper_end(most: float) -> None:
    top, levels = ceiling(most)
    assert most < top <= most * 1.2
    assert 1 <= len(levels) <= 5
    assert all(0 < level < top for level in levels)
    assert levels == sorted(levels)


def test_an_axis_of_nothing_has_no_levels() -> None:
    assert ceiling(0) == (1.0, [])
    assert Span(5, 5).percent(7) == 100.0
