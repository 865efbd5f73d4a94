"""The choice of summaries for a range of time: whole days where possible, else whole hours; rows for the rest. And the
days whose summary is to be made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline import layout
from pipeline.layout import Hour
from pipeline.layout import Manifest as History
from pipeline.summaries.layout import Summary, current, parts_of


@dataclass(frozen=True, slots=True)
class Choice:
    """Summaries that answer for a range: of whole days, and of hours of other days; `covered`: the hours of both."""

    days: Mapping[str, Summary]
    hours: Mapping[Hour, Summary]
    covered: frozenset[Hour]

    @property
    def paths(self) -> list[str]:
        """The parts to read."""
        return [path for summary in (*self.days.values(), *self.hours.values()) for path in summary.paths]

    @property
    def rows(self) -> int:
        """The rows of telemetry that they stand for."""
        return sum(summary.manifest.rows for summary in (*self.days.values(), *self.hours.values()))

    @property
    def lost(self) -> int:
        """The rows that were lost before these were written."""
        return sum(summary.manifest.lost for summary in (*self.days.values(), *self.hours.values()))


def choose(
    since: int,
    until: int,
    live: Mapping[Hour, Sequence[str]],
    history: Mapping[Hour, History],
    hours: Mapping[Hour, Summary],
    days: Mapping[str, Summary],
) -> Choice:
    """Choose summaries of `hours` and `days` for the rows with `since` <= ts < `until` (µs since 1970).

    An hour with live files that are not in its history has no current summary.
    """
    late = {hour for hour, files in live.items() if layout.late_files(files, history.get(hour))}
    whole = {
        hour: summary
        for hour, summary in current(hours, history).items()
        if hour not in late and since <= hour.begins and hour.ends <= until
    }
    lacking = {hour.dt for hour in {*live, *history} if hour not in whole}
    by_day: dict[str, list[Summary]] = defaultdict(list)
    for hour, summary in whole.items():
        by_day[hour.dt].append(summary)
    chosen = {
        day: days[day]
        for day, found in by_day.items()
        if day not in lacking and day in days and days[day].manifest.sources == parts_of(found)
    }
    left = {hour: summary for hour, summary in whole.items() if hour.dt not in chosen}
    return Choice(chosen, left, frozenset(whole))


def due_days(
    history: Mapping[Hour, History],
    hours: Mapping[Hour, Summary],
    days: Mapping[str, Summary],
    now: int,
    grace_us: int,
) -> dict[str, list[Summary]]:
    """Return the days whose summary is to be made, with the summaries of their hours: those that are over, whose hours
    all have current summaries, and whose own is missing or not current. `now` is in µs since 1970.
    """
    known = current(hours, history)
    lacking = {hour.dt for hour in history.keys() - known.keys()}
    found: dict[str, list[Summary]] = defaultdict(list)
    for hour in sorted(known):
        if hour.dt not in lacking and layout.is_closed(Hour(hour.dt, 23), now, grace_us):
            found[hour.dt].append(known[hour])
    return {day: own for day, own in found.items() if day not in days or days[day].manifest.sources != parts_of(own)}
