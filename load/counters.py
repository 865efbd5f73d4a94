"""What a run counted: kept per process, sent to the master as differences, summed there.

Locust's own statistics count *batches*, because an event per message would cost more than the message; messages are
counted here. With `--processes`, a worker's tally is taken (and so emptied) for each report to the master, which adds
the reports up; without, the one tally is both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from load.ranges import RangeSet

Sum = Literal[
    "published",
    "published_bytes",
    "confirmed",
    "nacked",
    "returned",
    "received",
    "received_bytes",
    "redelivered",
    "duplicated",
    "reordered",
    "unstamped",
    "flow_stops",
    "flow_stopped_seconds",
    "blocked",
    "blocked_seconds",
]


class Stop(NamedTuple):
    """One time a publisher was told to stop: CLOCK_MONOTONIC seconds, and by which method."""

    began: float
    ended: float
    told_by: Literal["FLOW", "BLOCKED"]


@dataclass(slots=True)
class Tally:
    """Sums, and per producer which sequence numbers were published, confirmed and received."""

    sums: defaultdict[Sum, float] = field(default_factory=lambda: defaultdict(float))
    published: Counter[int] = field(default_factory=Counter)
    confirmed: dict[int, RangeSet] = field(default_factory=dict)
    received: dict[int, RangeSet] = field(default_factory=dict)
    received_again: dict[int, RangeSet] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)

    def note_confirmed(self, producer: int, first: int, end: int) -> None:
        """A broker confirmed sequences first … end-1 of a producer."""
        self.confirmed.setdefault(producer, RangeSet()).add(first, end)
        self.sums["confirmed"] += end - first

    def note_received(self, producer: int, sequence: int, redelivered: bool) -> None:
        """A consumer got a message. Only one that is not marked redelivered can be a duplicate."""
        if redelivered:
            self.received_again.setdefault(producer, RangeSet()).add(sequence, sequence + 1)
            self.sums["redelivered"] += 1
        else:
            known = self.received.setdefault(producer, RangeSet())
            self.sums["duplicated"] += known.add(sequence, sequence + 1)

    def note_stop(self, stop: Stop) -> None:
        """A publisher that was told to stop may go on again."""
        self.stops.append(stop)
        if stop.told_by == "FLOW":
            self.sums["flow_stops"] += 1
            self.sums["flow_stopped_seconds"] += stop.ended - stop.began
        else:
            self.sums["blocked"] += 1
            self.sums["blocked_seconds"] += stop.ended - stop.began

    def lost(self) -> dict[int, RangeSet]:
        """Per producer, what was confirmed and never received."""
        missing = {}
        for producer, confirmed in self.confirmed.items():
            arrived = RangeSet(self.received.get(producer, ()))
            arrived.update(self.received_again.get(producer, RangeSet()))
            if left := confirmed.minus(arrived):
                missing[producer] = left
        return missing

    def take(self) -> dict[str, Any]:
        """Everything counted since the last call, as plain lists and dicts, and start from nothing again."""
        report = {
            "sums": dict(self.sums),
            "published": list(self.published.items()),
            "confirmed": _plain(self.confirmed),
            "received": _plain(self.received),
            "received_again": _plain(self.received_again),
            "stops": [list(stop) for stop in self.stops],
        }
        self.clear()
        return report

    def add(self, report: Mapping[str, Any]) -> None:
        """Add what another process took. Messages two of them received count as duplicated here."""
        for name, value in report["sums"].items():
            self.sums[name] += value
        self.published.update(dict(report["published"]))
        _merge(self.confirmed, report["confirmed"])
        self.sums["duplicated"] += _merge(self.received, report["received"])
        _merge(self.received_again, report["received_again"])
        self.stops.extend(Stop(*stop) for stop in report["stops"])

    def clear(self) -> None:
        """Forget everything: a new test starts."""
        for counted in (
            self.sums, self.published, self.confirmed, self.received, self.received_again, self.stops
        ):  # fmt: skip
            counted.clear()


def _plain(sets: Mapping[int, RangeSet]) -> list[tuple[int, list[tuple[int, int]]]]:
    return [(producer, list(ranges)) for producer, ranges in sets.items()]


def _merge(into: dict[int, RangeSet], plain: list[tuple[int, list[tuple[int, int]]]]) -> int:
    """Returns how many sequence numbers were in both."""
    return sum(into.setdefault(producer, RangeSet()).update(RangeSet(ranges)) for producer, ranges in plain)
