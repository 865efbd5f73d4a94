"""Plots: all their data, within their frames, and right for short ranges."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.axes import Span
from pipeline.report.causes import FAULTS_IN_ORDER
from pipeline.report.contents import UNKNOWN, Curve
from pipeline.report.plots import BARS_MOST, SERIES_MOST, TALL, WIDE, Plot, depth, held, shard_load
from tests.pipeline.report.reports import MINUTE_US, SINCE, SLOT_US

HOUR = Span(SINCE, SINCE + 60 * MINUTE_US)


def load(node: str, shard: int, slot: int, rate: float, covered: int = 60_000) -> dict[str, Any]:
    """Return a row of the load of a shard; `slot` is counted from that at or before the beginning."""
    moved = round(rate * covered / 1000)
    start = SINCE - SINCE % SLOT_US + slot * SLOT_US
    messages = {"msgs_in": moved // 2, "msgs_out": moved - moved // 2}
    return {"node": node, "shard": shard, "slot": start, "covered_ms": covered, **messages}


def levels_of(path: str) -> list[tuple[float, float, float]]:
    """Return the level parts of a path: begin, end, and place from the top."""
    parts = re.findall(r"[ML]([\d.]+) ([\d.]+)H([\d.]+)", path)
    assert "".join(f"{begin} {down}H{end}" for begin, down, end in parts) == re.sub("[ML]", "", path)
    return [(float(begin), float(end), float(down)) for begin, down, end in parts]


def value_at(plot: Plot, down: float) -> float:
    """Return the value at a place from the top, by the first level of the axis."""
    (place, label), *_ = plot.levels
    per_value = (TALL - place) / float(label.replace(",", ""))
    return (TALL - down) / per_value


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_short_range_shows_slots_that_begin_before_it_at_their_rates(minutes: int) -> None:
    """A range of 5 min lies in two slots, both cut off by it; one of 1 min in one."""
    since = SINCE - SINCE % SLOT_US + 2 * MINUTE_US
    span = Span(since, since + minutes * MINUTE_US)
    plot = shard_load([load("a", 0, 0, 526), load("a", 0, 1, 56)], span, SLOT_US)
    (line,) = plot.lines
    drawn = levels_of(line.path)
    expected = [(0, 600, 526), (600, 1000, 56)] if minutes == 5 else [(0, 1000, 526)]
    assert [(begin, end) for begin, end, _ in drawn] == [(begin, end) for begin, end, _ in expected]
    for (*_, down), (*_, rate) in zip(drawn, expected, strict=True):
        assert value_at(plot, down) == pytest.approx(rate, abs=2)


def test_a_line_is_broken_where_a_shard_has_no_rows() -> None:
    plot = shard_load([load("a", 0, slot, 100) for slot in (0, 1, 4)], HOUR, SLOT_US)
    assert plot.lines[0].path.count("M") == 2


def test_each_shard_has_a_line_by_its_name_and_its_node_if_there_are_several() -> None:
    one = shard_load([load("a", shard, slot, 600) for shard in range(3) for slot in range(3)], HOUR, SLOT_US)
    assert [line.name for line in one.lines] == ["shard 0", "shard 1", "shard 2"]
    both = shard_load([load(node, 0, slot, 600) for node in "ab" for slot in range(3)], HOUR, SLOT_US)
    assert [line.name for line in both.lines] == ["a shard 0", "b shard 0"]


def test_the_busiest_shards_have_names_others_are_grey_and_idle_ones_counted() -> None:
    rows = [load("a", shard, 0, 100 * shard) for shard in range(SERIES_MOST + 4)]
    plot = shard_load([*rows, load("a", 20, 0, 600, covered=0)], HOUR, SLOT_US)
    named = [line for line in plot.lines if line.style is not None]
    assert [line.name for line in named] == [f"shard {shard}" for shard in range(4, SERIES_MOST + 4)]
    assert len({line.style for line in named}) == SERIES_MOST
    assert (plot.others, len(plot.lines) - len(named), plot.idle) == (3, 3, 2)


@given(
    st.integers(1, 3 * 24 * 60),
    st.dictionaries(st.integers(-3, 900), st.tuples(st.integers(0, 10**9), st.integers(0, 400_000)), max_size=20),
)
def test_lines_stay_in_their_frame(minutes: int, slots: dict[int, tuple[int, int]]) -> None:
    span = Span(SINCE, SINCE + minutes * MINUTE_US)
    rows = [load("a", 0, slot, *slots[slot]) for slot in sorted(slots)]
    plot = shard_load(rows, span, SLOT_US)
    for line in plot.lines:
        for begin, end, down in levels_of(line.path):
            assert 0 <= begin <= end <= WIDE and 0 <= down <= TALL
    assert all(0 <= down <= 100 for down, _ in plot.levels)


def test_a_curve_holds_its_depth_until_the_next_row_but_not_through_a_silence() -> None:
    points = [(SINCE, 8), (SINCE + MINUTE_US, 4), (SINCE + 30 * MINUTE_US, 6)]
    plot = depth(Curve("node-1", "/", "q", points, 0, 0), HOUR)
    (line,) = plot.lines
    drawn = levels_of(line.path)
    assert [(round(begin * 60 / WIDE, 1), round(end * 60 / WIDE, 1)) for begin, end, _ in drawn] == [
        (0, 1), (1, 3), (30, 32)
    ]  # fmt: skip
    assert [round(value_at(plot, down)) for *_, down in drawn] == [8, 4, 6]
    assert line.path.count("M") == 2


@pytest.mark.parametrize(("stop", "marks"), [(0, []), (20_000, ["stop 20,000", "resume 10,000"])])
def test_a_curve_has_the_marks_of_its_queue_if_there_are_any(stop: int, marks: list[str]) -> None:
    curve = Curve("node-1", "/", "q", [(SINCE + step * MINUTE_US, step) for step in range(30)], stop, stop // 2)
    plot = depth(curve, HOUR)
    assert [mark.label for mark in plot.marks] == marks
    assert all(0 <= mark.down <= 100 for mark in plot.marks)


def test_the_users_held_longest_have_bars_and_unknown_faults_too() -> None:
    rows = [{"user": f"u{number:02}", "product": "p", "fault": FAULTS_IN_ORDER[number % 6],
             "stopped_ms": 60_000 * (number + 1)} for number in range(BARS_MOST + 3)]  # fmt: skip
    rows.append({"user": "u17", "product": "p", "fault": "of a newer penstock", "stopped_ms": 60_000})
    found = held(rows)
    assert [bar.label for bar in found.bars] == [f"u{number:02} (p)" for number in range(17, 2, -1)]
    assert found.others == 3
    assert [name for _, name in found.legend] == [*FAULTS_IN_ORDER, "of a newer penstock"]
    assert len({style for style, _ in found.legend}) == len(found.legend) <= SERIES_MOST
    for bar in found.bars:
        ends = [0.0, *(at + width for _, at, width, _ in bar.parts)]
        assert [at for _, at, *_ in bar.parts] == pytest.approx(ends[:-1])
        assert ends[-1] <= 100.0001
    assert found.bars[0].total == "19 min"


def test_a_client_without_a_name_has_none() -> None:
    row = {"user": "ann", "product": UNKNOWN, "fault": "limit", "stopped_ms": 90_000}
    assert [bar.label for bar in held([row]).bars] == ["ann"]
    assert held([]).bars == []
