"""Axes of plots: round values at which lines are drawn. Places are in percent of the plot's width."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import NamedTuple

SECOND_US = 1_000_000
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
DAY_S = 86_400
STEPS_MOST = 4
EDGE = 8.0
"""A label nearer to an edge than this begins or ends there instead of being centred."""


class Tick(NamedTuple):
    """A line across a plot: its place, its label, and how the label is anchored: start, middle or end."""

    at: float
    label: str
    anchor: str = "middle"


class Span(NamedTuple):
    """A time in µs since 1970."""

    since: int
    until: int

    def percent(self, at: int) -> float:
        """Return the place of a time; one outside lies at the edge."""
        return min(max((at - self.since) / max(self.until - self.since, 1), 0.0), 1.0) * 100

    def ticks(self) -> list[Tick]:
        """Return round times, as few as a phone has room for. Their labels are dates at midnight and for steps of days,
        and have seconds for steps of seconds.
        """
        seconds = (self.until - self.since) / SECOND_US
        days = DAY_S * max(ceil(seconds / DAY_S / STEPS_MOST), 1)
        step = next((step for step in STEPS_S if seconds / step <= (STEPS_MOST if step >= 60 else 3)), days)
        first = ceil(self.since / SECOND_US / step) * step
        times = range(first, floor(self.until / SECOND_US) + 1, step)
        return [_tick(self.percent(at * SECOND_US), _label(at, step)) for at in times]


def ceiling(most: float, ticks: int = 4) -> tuple[float, list[float]]:
    """Return the value at the upper end of an axis, `most` or a little more, and about `ticks` round values between."""
    if most <= 0:
        return 1.0, []
    rough = most / ticks
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    count = floor(most / step + 1e-9)
    return max(most, step * count) * 1.08, [step * number for number in range(1, count + 1)]


def _tick(at: float, label: str) -> Tick:
    return Tick(at, label, "start" if at < EDGE else "end" if at > 100 - EDGE else "middle")


def _label(at: int, step: int) -> str:
    time = datetime.fromtimestamp(at, UTC)
    if step >= DAY_S or at % DAY_S == 0:
        return f"{time:%b} {time.day}"
    return f"{time:%H:%M}" if step >= 60 else f"{time:%H:%M:%S}"
