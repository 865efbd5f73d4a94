"""Rows for a plan, sampled from the gauges of a running node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ops.rebalance.goals import Home
from ops.rebalance.rows import QueueRow
from penstock.memory.gauges import QueueGauge


@dataclass(slots=True)
class _Watched:
    """The samples of one queue, one for each interval that was seen whole."""

    last: QueueGauge
    at: float
    rates: list[float] = field(default_factory=list)
    nbytes: list[float] = field(default_factory=list)
    peak_depth: int = 0
    peak_bytes: int = 0
    readings: int = 0
    stopped: int = 0


class Samples:
    """A series of readings of all queues' gauges."""

    def __init__(self) -> None:
        self.intervals = -1
        self._watched: dict[int, _Watched] = {}

    def add_reading(self, now: float, records: Iterable[QueueGauge]) -> None:
        """Add one reading, at `now` in seconds. Torn records are skipped."""
        self.intervals += 1
        for record in records:
            if record.torn:
                continue
            watched = self._watched.get(record.queue_id)
            if watched is None:
                watched = self._watched[record.queue_id] = _Watched(record, now)
            else:
                _advance(watched, record, now)
            watched.readings += 1
            watched.stopped += record.saturated
            watched.peak_depth = max(watched.peak_depth, record.ready + record.unacked)
            watched.peak_bytes = max(watched.peak_bytes, record.whole_bytes)

    def rows(self, homes: Sequence[Home]) -> list[QueueRow]:
        """Return the rows of the queues that were seen, in their present places."""
        return [
            _row(home, self._watched[home.queue_id], self.intervals) for home in homes if home.queue_id in self._watched
        ]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, interpolated linearly; 0 if there are none."""
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _advance(watched: _Watched, record: QueueGauge, now: float) -> None:
    before, after, seconds = watched.last.counters, record.counters, now - watched.at
    watched.last, watched.at = record, now
    came = after.published - before.published, after.delivered - before.delivered
    nbytes = after.published_bytes - before.published_bytes, after.delivered_bytes - before.delivered_bytes
    if seconds <= 0 or min(came) < 0 or min(nbytes) < 0:  # the counters of its shard have restarted
        return
    watched.rates.append(sum(came) / seconds)
    watched.nbytes.append(sum(nbytes) / seconds)


def _row(home: Home, watched: _Watched, intervals: int) -> QueueRow:
    rates, nbytes, last = sorted(watched.rates), sorted(watched.nbytes), watched.last
    return QueueRow(
        home.vhost,
        home.queue,
        home.shard,
        quantile(rates, 0.5),
        quantile(rates, 0.95),
        quantile(nbytes, 0.95),
        watched.peak_depth,
        watched.peak_bytes,
        watched.stopped / watched.readings,
        last.ready + last.unacked,
        last.whole_bytes,
        min(len(rates) / intervals, 1.0) if intervals > 0 else 0.0,
    )


def with_present_depths(
    rows: Sequence[QueueRow], records: Mapping[int, QueueGauge], homes: Sequence[Home]
) -> list[QueueRow]:
    """Return earlier rows with the present depths and places of their queues."""
    known = {home.key: home for home in homes}
    found = []
    for row in rows:
        home = known.get(row.key)
        if home is None:
            continue
        now = records.get(home.queue_id)
        depth = (row.backlog, row.backlog_bytes)
        if now is not None:
            depth = (now.ready + now.unacked, now.whole_bytes)
        found.append(
            QueueRow(
                *(row.vhost, row.queue, home.shard, row.p50_rate, row.p95_rate, row.p95_bytes_rate),
                *(max(row.peak_depth, depth[0]), max(row.peak_bytes, depth[1]), row.stopped_share),
                *(*depth, row.coverage),
            )
        )
    return found
