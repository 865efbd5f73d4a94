"""Counters of a run: kept per process, sent to the master as differences and summed there.

Locust's own statistics count *batches*, because an event per message would cost more than the message; messages are
counted here. With `--processes`, each report to the master takes, and so empties, the worker's tally, and the master
adds up the reports. Without, one tally serves as both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from load.ranges import RangeSet

Sum = Literal[
    "confirmed",
    "nacked",
    "received",
    "received_bytes",
    "redelivered",
    "duplicated",
    "reordered",
    "unstamped",
]

Wait = Literal["stopped", "confirms", "writing"]
"""The reason for a publisher's wait: a stop that it obeys, confirms, or room in the socket."""

COPY_SHIFT = 32


def stream_of(producer: int, copy: int = 0) -> int:
    """Return the stream id of a producer (32 bits) in one of the queues that get copies; copies are numbered from 0."""
    return copy << COPY_SHIFT | producer


class Stop(NamedTuple):
    """A period in which a publisher was asked to stop: CLOCK_MONOTONIC seconds, the method that asked, the class of the
    user, and the queues that the user publishes to.
    """

    began: float
    ended: float
    method: Literal["FLOW", "BLOCKED"]
    user: str = ""
    queues: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(slots=True)
class Tally:
    """Sums; per publisher class, messages published and time waited; per stream, the sequence numbers confirmed and
    received.
    """

    sums: defaultdict[Sum, float] = field(default_factory=lambda: defaultdict(float))
    published: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Messages by user class and producer."""
    waits: defaultdict[str, defaultdict[Wait, float]] = field(default_factory=lambda: defaultdict(_seconds))
    """Seconds by user class and reason, summed over the users of the class, including waits in progress."""
    confirmed: dict[int, RangeSet] = field(default_factory=dict)
    received: dict[int, RangeSet] = field(default_factory=dict)
    redelivered: dict[int, RangeSet] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)

    @property
    def published_total(self) -> int:
        return sum(producers.total() for producers in self.published.values())

    def record_confirmed(self, producer: int, first: int, end: int, copies: int = 1) -> None:
        """Record that sequences first … end-1 of a producer are confirmed; each of `copies` queues gets a copy."""
        for copy in range(copies):
            self.confirmed.setdefault(stream_of(producer, copy), RangeSet()).add(first, end)
        self.sums["confirmed"] += end - first

    def record_received(self, stream: int, sequence: int, redelivered: bool) -> None:
        """Record a message that a consumer received. Only a message not marked redelivered can be a duplicate."""
        if redelivered:
            self.redelivered.setdefault(stream, RangeSet()).add(sequence, sequence + 1)
            self.sums["redelivered"] += 1
        else:
            known = self.received.setdefault(stream, RangeSet())
            self.sums["duplicated"] += known.add(sequence, sequence + 1)

    def record_stop(self, stop: Stop) -> None:
        """Record a stop that has ended."""
        self.stops.append(stop)

    def lost(self) -> dict[int, RangeSet]:
        """Return, per stream, the messages that were confirmed and never received."""
        missing = {}
        for stream, confirmed in self.confirmed.items():
            arrived = RangeSet(self.received.get(stream, ()))
            arrived.update(self.redelivered.get(stream, RangeSet()))
            if left := confirmed.minus(arrived):
                missing[stream] = left
        return missing

    def pop_report(self) -> dict[str, Any]:
        """Return everything counted since the last call, as plain lists and dicts, and reset the counters."""
        report = {
            "sums": dict(self.sums),
            "published": [(user, list(producers.items())) for user, producers in self.published.items()],
            "waits": [(user, dict(waits)) for user, waits in self.waits.items()],
            "confirmed": _plain(self.confirmed),
            "received": _plain(self.received),
            "redelivered": _plain(self.redelivered),
            "stops": [list(stop) for stop in self.stops],
        }
        self.clear()
        return report

    def add(self, report: Mapping[str, Any]) -> None:
        """Add the report of another process. A message that two processes received counts as duplicated."""
        for name, value in report["sums"].items():
            self.sums[name] += value
        for user, producers in report["published"]:
            self.published[user].update(dict(producers))
        for user, waits in report["waits"]:
            for name, seconds in waits.items():
                self.waits[user][name] += seconds
        _merge(self.confirmed, report["confirmed"])
        self.sums["duplicated"] += _merge(self.received, report["received"])
        _merge(self.redelivered, report["redelivered"])
        self.stops.extend(Stop(*stop)._replace(queues=tuple(stop[-1])) for stop in report["stops"])

    def clear(self) -> None:
        """Reset all counters for a new test."""
        for counted in (
            self.sums, self.published, self.waits, self.confirmed, self.received, self.redelivered, self.stops
        ):  # fmt: skip
            counted.clear()


def _seconds() -> defaultdict[Wait, float]:
    return defaultdict(float)


def _plain(sets: Mapping[int, RangeSet]) -> list[tuple[int, list[tuple[int, int]]]]:
    return [(stream, list(ranges)) for stream, ranges in sets.items()]


def _merge(into: dict[int, RangeSet], plain: list[tuple[int, list[tuple[int, int]]]]) -> int:
    """Merge the sets and return how many sequence numbers were in both."""
    return sum(into.setdefault(stream, RangeSet()).update(RangeSet(ranges)) for stream, ranges in plain)
