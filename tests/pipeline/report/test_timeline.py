"""Episodes as a timeline: each in the lane of its queue, all its time, and no time twice."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.schema import CAUSES
from pipeline.report.axes import Span
from pipeline.report.plots import SERIES_MOST
from pipeline.report.timeline import LANES_MOST, holds, timeline

SPAN = Span(1_000_000_000_000, 1_000_100_000_000)


def episode(
    began: int, ended: int | None, cause: str = "count", queue: str | None = "q", **facts: Any
) -> dict[str, Any]:
    """Return an episode; times are in ms from the beginning of the span."""
    until = SPAN.until if ended is None else SPAN.since + ended * 1000
    row = {"node": "n", "vhost": "/", "queue": queue, "cause": cause, "started": SPAN.since + began * 1000}
    return row | {"ended": None if ended is None else until, "stopped_ms": (until - row["started"]) // 1000} | facts


def test_a_bar_is_where_and_as_long_as_its_hold() -> None:
    found = timeline([episode(25_000, 75_000)], SPAN, has_nodes=False)
    (lane,) = found.lanes
    (bar,) = lane.bars
    assert (lane.label, lane.place, lane.total) == ("q", "", "50 s")
    assert (bar.at, bar.width) == (25.0, 50.0)
    assert bar.words.startswith("messages above the stop mark: ") and bar.words.endswith("50 s, one episode")
    assert found.legend == [(0, "messages above the stop mark")]


def test_holds_that_overlap_are_one_and_open_ones_end_with_the_range() -> None:
    rows = [episode(10_000, 20_000), episode(15_000, 30_000, connection="2"), episode(90_000, None)]
    assert [(hold.began - SPAN.since, hold.ended - SPAN.since, hold.episodes) for hold in holds(rows, SPAN)] == [
        (10_000_000, 30_000_000, 2), (90_000_000, 100_000_000, 1)
    ]  # fmt: skip


def test_parts_outside_the_range_are_cut_off() -> None:
    ((began, ended, *_),) = holds([episode(-50_000, 150_000)], SPAN)
    assert (began, ended) == SPAN
    assert timeline([episode(-50_000, 150_000)], SPAN, has_nodes=False).is_cut
    assert not timeline([episode(0, 150_000)], SPAN, has_nodes=False).is_cut


def test_causes_have_their_own_styles_and_lanes_say_where_they_are() -> None:
    rows = [episode(0, 9_000), episode(0, 5_000, "bytes"), episode(0, 4_000, "memory", None, vhost="shop")]
    found = timeline(rows, SPAN, has_nodes=True)
    assert [(lane.label, lane.place) for lane in found.lanes] == [("q", "on n"), ("memory of a shard", "in shop on n")]
    assert [style for style, _ in found.legend] == [0, 1, 2]
    assert [bar.style for bar in found.lanes[0].bars] == [0, 1], "the shorter one lies on top"


def test_queues_of_two_nodes_have_two_lanes_and_the_last_are_counted() -> None:
    rows = [episode(0, 1_000 + number, queue=f"q{number % 10}", node="ab"[number // 10]) for number in range(20)]
    found = timeline(rows, SPAN, has_nodes=True)
    assert len(found.lanes) == LANES_MOST and found.others == 20 - LANES_MOST
    assert (found.lanes[0].label, found.lanes[0].place) == ("q9", "on b")


def test_an_unknown_cause_is_drawn_by_its_name_and_no_style_is_missing() -> None:
    rows = [episode(0, 1_000 + number, cause) for number, cause in enumerate((*CAUSES, "new"))]
    found = timeline(rows, SPAN, has_nodes=False)
    assert {name for _, name in found.legend} >= {"new"}
    assert all(0 <= style < SERIES_MOST for style, _ in found.legend)


times = st.tuples(st.integers(-20_000, 120_000), st.integers(0, 60_000), st.sampled_from(["count", "bytes"]))


@given(st.lists(times, max_size=30))
def test_joined_holds_cover_the_time_of_the_episodes_and_nothing_else(found: list[tuple[int, int, str]]) -> None:
    rows = [episode(began, began + length, cause) for began, length, cause in found]
    for cause in ("count", "bytes"):
        covered = {
            second
            for began, length, own in found
            if own == cause
            for second in range(max(began, 0), min(began + length, 100_000))
        }
        own = sorted(hold for hold in holds(rows, SPAN) if hold.cause == cause)
        assert sum(hold.ended - hold.began for hold in own) == len(covered) * 1000
        assert all(one.ended < other.began for one, other in pairwise(own))
        assert sum(hold.episodes for hold in own) == sum(cause == each for *_, each in found)
    for bar in (bar for lane in timeline(rows, SPAN, has_nodes=False).lanes for bar in lane.bars):
        assert bar.at >= 0 and bar.at + bar.width == pytest.approx(min(bar.at + bar.width, 100.0))
