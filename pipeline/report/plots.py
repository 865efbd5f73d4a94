"""Plots of the report as plain geometry, which the templates draw.

Places across are in percent of a plot's width, so that plots fit any page and their texts keep their size. Paths have
coordinates of their own, 0 to `WIDE` across and 0 to `TALL` down, and are stretched to the plot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.report.axes import Span, Tick, ceiling
from pipeline.report.causes import FAULTS_IN_ORDER
from pipeline.report.contents import POINTS, UNKNOWN, Curve, Row
from pipeline.report.formats import length

WIDE, TALL = 1000, 100
SERIES_MOST = 8
"""Styles that can be told apart, with and without colours."""
BARS_MOST = 15
SILENCE_US = 120_000_000
"""A queue with rows writes one each minute at least: a line is broken where there is none for this long."""

Points = Sequence[tuple[int, int, float]]
"""Begin and end of a time, in µs since 1970, and the value in it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its name, the number of its style (None: one of many, without a name in the legend), its path, and that
    of the area below.
    """

    name: str
    style: int | None
    path: str
    area: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A level across a plot, at a part of its height from the top in percent. Its label is above or below."""

    name: str
    label: str
    down: float


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot over time. `levels`: values of the axis, each with its place from the top in percent. `others`: lines
    without a name; `idle`: lines left out, as they are 0.
    """

    unit: str
    ticks: list[Tick]
    levels: list[tuple[float, str]]
    lines: list[Line]
    marks: list[Mark]
    others: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of parts: each with the number of its style, begin and width in percent, and words."""

    label: str
    total: str
    parts: list[tuple[int, float, float, str]]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars below each other, and the styles in them with their names. `others`: bars left out."""

    bars: list[Bar]
    legend: list[tuple[int, str]]
    others: int


def shard_load(rows: Sequence[Row], span: Span, slot_us: int) -> Plot:
    """Plot messages a second of each shard. A slot that the range cuts off is drawn for the part in the range, at the
    rate in that part. `slot_us`: length of a slot.
    """
    points: dict[tuple[str, int], list[tuple[int, int, float]]] = defaultdict(list)
    for row in rows:
        rate = (row["msgs_in"] + row["msgs_out"]) * 1000 / row["covered_ms"] if row["covered_ms"] else 0.0
        begin, end = max(row["slot"], span.since), min(row["slot"] + slot_us, span.until)
        if begin < end:
            points[row["node"], row["shard"]].append((begin, end, rate))
    has_nodes = len({node for node, _ in points}) > 1
    moved = {shard: sum(rate * (end - begin) for begin, end, rate in own) for shard, own in points.items()}
    busiest = sorted((shard for shard in moved if moved[shard]), key=lambda shard: (-moved[shard], shard))
    named, others = sorted(busiest[:SERIES_MOST]), busiest[SERIES_MOST:]
    top, levels = ceiling(max((rate for own in points.values() for *_, rate in own), default=0.0))
    lines = [Line("", None, _steps(points[shard], span, top)) for shard in others]
    for number, (node, shard) in enumerate(named):
        name = f"{node} shard {shard}" if has_nodes else f"shard {shard}"
        lines.append(Line(name, number, _steps(points[node, shard], span, top)))
    levelled = _levels(levels, top)
    return Plot("messages a second", span.ticks(), levelled, lines, [], len(others), len(points) - len(busiest))


def depth(curve: Curve, span: Span) -> Plot:
    """Plot the depth of a queue over time, against its marks."""
    most = max([curve.stop_count, *(deep for _, deep in curve.points)])
    top, levels = ceiling(most)
    marks = []
    if curve.stop_count:
        for name, count in (("stop", curve.stop_count), ("resume", curve.resume_count)):
            marks.append(Mark(name, f"{name} {count:,}", _down(count, top)))
    silence = max(SILENCE_US, 2 * (span.until - span.since) // POINTS)
    following = [at for at, _ in curve.points[1:]] + [span.until]
    points = [
        (at, min(after, at + silence, span.until), deep)
        for (at, deep), after in zip(curve.points, following, strict=True)
    ]
    line = Line("depth", 0, _steps(points, span, top), _areas(points, span, top))
    return Plot("messages", span.ticks(), _levels(levels, top), [line], marks)


def held(rows: Iterable[Row]) -> Bars:
    """Plot the time for which users were held, by fault, from rows of the culprits' ledger."""
    users: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        client = "" if row["product"] == UNKNOWN else f" ({row['product']})"
        users[f"{row['user']}{client}"][row["fault"]] += row["stopped_ms"]
    longest = sorted(users, key=lambda user: (-sum(users[user].values()), user))
    shown = longest[:BARS_MOST]
    faults = dict.fromkeys(fault for user in shown for fault in users[user])
    known = [fault for fault in (*FAULTS_IN_ORDER, *sorted(faults.keys() - {*FAULTS_IN_ORDER})) if fault in faults]
    style = {fault: _style_of_fault(fault) for fault in known}
    most = max((sum(users[user].values()) for user in shown), default=0) or 1
    bars = []
    for user in shown:
        at, parts = 0.0, []
        for fault in known:
            if ms := users[user][fault]:
                parts.append((style[fault], at, ms / most * 100, f"{fault}: {length(ms / 1000)}"))
                at += ms / most * 100
        bars.append(Bar(user, length(sum(users[user].values()) / 1000), parts))
    return Bars(bars, [(style[fault], fault) for fault in known], len(users) - len(shown))


def _style_of_fault(fault: str) -> int:
    known = fault in FAULTS_IN_ORDER
    return FAULTS_IN_ORDER.index(fault) if known else SERIES_MOST - 1


def _steps(points: Points, span: Span, top: float) -> str:
    """Return the path of a line that is level within each time, and broken where there is none between two."""
    parts, last = [], None
    for begin, end, value in points:
        down = f"{_down(value, top) * TALL / 100:.2f}"
        parts.append(f"{'L' if last == begin else 'M'}{_across(begin, span)} {down}H{_across(end, span)}")
        last = end
    return "".join(parts)


def _areas(points: Points, span: Span, top: float) -> str:
    """Return the path of the area below such a line."""
    return "".join(
        f"M{_across(begin, span)} {TALL}V{_down(value, top) * TALL / 100:.2f}H{_across(end, span)}V{TALL}Z"
        for begin, end, value in points
        if value
    )


def _across(at: int, span: Span) -> str:
    return f"{span.percent(at) * WIDE / 100:.2f}"


def _down(value: float, top: float) -> float:
    return (1 - min(value / top, 1.0)) * 100


def _levels(levels: list[float], top: float) -> list[tuple[float, str]]:
    return [(_down(level, top), f"{level:,.6g}") for level in levels]
