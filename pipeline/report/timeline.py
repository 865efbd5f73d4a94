"""Episodes over time: a lane for each queue, with a bar for each time that a cause held channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.telemetry.schema import CAUSES
from pipeline.report.axes import Span, Tick
from pipeline.report.causes import SHORT
from pipeline.report.contents import Row
from pipeline.report.formats import length, moment
from pipeline.report.plots import SERIES_MOST

LANES_MOST = 15

Place = tuple[str, str, bool, str]
"""Node, vhost, whether the name is that of a queue, and that name, or the cause in words."""


class Hold(NamedTuple):
    """A time in which a cause held channels, in µs since 1970, and the number of episodes in it."""

    began: int
    ended: int
    cause: str
    episodes: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: the number of its style, begin and width in percent, and words."""

    style: int
    at: float
    width: float
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The bars of a queue, or of a cause that holds more than one. `total`: time held, summed over channels."""

    label: str
    place: str
    total: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes, those held longest first. `others`: lanes left out; `is_cut`: whether episodes began before the range."""

    lanes: list[Lane]
    legend: list[tuple[int, str]]
    ticks: list[Tick]
    others: int
    is_cut: bool


def timeline(episodes: Iterable[Row], span: Span, has_nodes: bool) -> Timeline:
    """Draw episodes; parts of them outside the span are cut off. `has_nodes`: lanes name their node."""
    lanes: dict[Place, list[Row]] = defaultdict(list)
    for row in episodes:
        is_queue = row["queue"] is not None
        lanes[row["node"], row["vhost"], is_queue, row["queue"] if is_queue else _words(row["cause"])].append(row)
    totals = {place: sum(row["stopped_ms"] for row in rows) for place, rows in lanes.items()}
    longest = sorted(lanes, key=lambda place: (-totals[place], place))
    found = {place: holds(lanes[place], span) for place in longest[:LANES_MOST]}
    present = {hold.cause for each in found.values() for hold in each}
    known = [cause for cause in (*CAUSES, *sorted(present - {*CAUSES})) if cause in present]
    style = {cause: number % SERIES_MOST for number, cause in enumerate(known)}
    shown = [
        Lane(
            place[-1],
            _place(place, has_nodes),
            length(totals[place] / 1000),
            [_bar(hold, style[hold.cause], span) for hold in found[place]],
        )
        for place in found
    ]
    legend = [(style[cause], _words(cause)) for cause in known]
    is_cut = any(row["started"] < span.since for rows in lanes.values() for row in rows)
    return Timeline(shown, legend, span.ticks(), len(lanes) - len(shown), is_cut)


def holds(rows: Iterable[Row], span: Span) -> list[Hold]:
    """Join the episodes of one cause that overlap; the longest come first, so that shorter ones lie on top."""
    joined: dict[str, list[Hold]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["started"])):
        began = min(max(row["started"], span.since), span.until)
        ended = min(max(span.until if row["ended"] is None else row["ended"], began), span.until)
        own = joined[row["cause"]]
        if own and began <= own[-1].ended:
            last = own.pop()
            own.append(Hold(last.began, max(last.ended, ended), last.cause, last.episodes + 1))
        else:
            own.append(Hold(began, ended, row["cause"], 1))
    return sorted((hold for own in joined.values() for hold in own), key=lambda hold: (hold.began - hold.ended, hold))


def _bar(hold: Hold, style: int, span: Span) -> Bar:
    at = span.percent(hold.began)
    episodes = "one episode" if hold.episodes == 1 else f"{hold.episodes:,} episodes"
    seconds = length((hold.ended - hold.began) / 1e6)
    words = f"{_words(hold.cause)}: {moment(hold.began)} to {moment(hold.ended)}, {seconds}, {episodes}"
    return Bar(style, at, span.percent(hold.ended) - at, words)


def _place(place: Place, has_nodes: bool) -> str:
    node, vhost, *_ = place
    return " ".join(filter(None, (f"in {vhost}" if vhost != "/" else "", f"on {node}" if has_nodes else "")))


def _words(cause: str) -> str:
    return SHORT.get(cause, cause)
