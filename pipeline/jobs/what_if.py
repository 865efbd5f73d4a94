"""What if: a range of time replayed against other marks. How long would queues have held their producers, and which?

The replay knows the messages published and acked. While consumers had messages, their acks are taken for their
capacity; while they had none, their usual busy rate is. Messages that would not have been let in wait with their
producers, and follow when there is room again. The replay takes one step a row, so it misses stops shorter than the
sampling interval; marks in bytes are converted at the mean size of the whole messages in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.held import UNKNOWN
from pipeline.jobs.queues import PLACE, backlog, whole_bytes
from pipeline.schema import arrow, shaped, struct

STOPS = Table(
    "what_if_stops",
    "Each time that producers would have been stopped.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("started", "bigint", "µs since 1970 (UTC)", "when the stop mark would have been exceeded"),
        Column("ended", "bigint", "µs since 1970 (UTC)", "when the queue would have resumed; null: not in the range",
               nullable=True),
        Column("stopped_ms", "bigint", "ms", "length of the stop; one that has not ended counts until the last row"),
        Column("peak_depth", "bigint", "messages", "greatest depth in the stop"),
        Column("peak_waiting", "bigint", "messages", "greatest number of messages waiting with producers"),
    ),
)  # fmt: skip
TABLE = Table(
    "what_if",
    "Each queue with recommended marks, before and after: how long it held its producers, and how long it would have.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("stop_count", "bigint", "messages", "the stop mark that was tried"),
        Column("resume_count", "bigint", "messages", "the resume mark that was tried"),
        Column("stops", "bigint", "", "how often the queue would have stopped its producers"),
        Column("stopped_ms", "bigint", "ms", "total length of these stops"),
        Column("longest_ms", "bigint", "ms", "longest of these stops"),
        Column(
            "peak_depth", "bigint", "messages", "greatest depth in these stops; null: there are none", nullable=True
        ),
        Column("was_stop_count", "bigint", "messages", "the present stop mark; 0: none"),
        Column("was_resume_count", "bigint", "messages", "the present resume mark"),
        Column("was_stopped_ms", "bigint", "ms", "time for which the queue actually held producers"),
        Column("was_peak_depth", "bigint", "messages", "greatest depth that the queue actually had"),
    ),
)
CHANNELS = Table(
    "what_if_channels",
    "Channels that would have been stopped. Telemetry knows a channel to publish to a queue only if the queue held it "
    "in the range.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("user", "string", "", "user of the connection"),
        Column("product", "string", "", f"product that the client names, or `{UNKNOWN}`"),
        Column("connection", "string", "", "connection of the channel"),
        Column("channel", "int", "", "number of the channel"),
        Column("stops", "bigint", "", "how often the queue would have stopped its producers"),
        Column("stopped_ms", "bigint", "ms", "total length of these stops"),
    ),
)
REPLAYED = ("ts", "seq", "depth", "n_published", "n_acked", "n_dropped", "interval_ms", "stop", "resume")

REPLAYED_MOST = 200
"""Queues of a long range that are replayed."""


@dataclass(slots=True)
class Stop:
    """A period for which producers would have been stopped, updated as the replay goes on. Times in µs."""

    started: int
    ended: int | None = None
    last: int = 0
    peak_depth: int = 0
    peak_waiting: int = 0


def stops(depth: DataFrame, marks: DataFrame) -> DataFrame:
    """Replay each queue in `marks`. `depth` has rows of the table; `marks` has node, vhost, queue and the four marks to
    try (0: none).

    The result has the columns of `STOPS`.
    """
    size = F.try_divide(whole_bytes(), backlog())
    tried = marks.select(
        *PLACE, *(F.coalesce(name, F.lit(0)).alias(f"try_{name}") for name in ("stop_count", "resume_count",
                                                                            "stop_bytes", "resume_bytes"))
    )  # fmt: skip
    rows = depth.join(F.broadcast(tried), [*PLACE]).select(
        *PLACE,
        "ts",
        "seq",
        backlog().alias("depth"),
        "n_published",
        "n_acked",
        "n_dropped",
        "interval_ms",
        _mark("stop", size),
        _mark("resume", size),
    )
    return rows.groupBy(*PLACE).applyInArrow(_replay_group, struct(STOPS))


def worth_replaying(marks: DataFrame, queues: DataFrame) -> DataFrame:
    """Return the marks of queues that held producers, or might have with these marks: at most `REPLAYED_MOST`, those
    that held longest first. `queues` comes from `pipeline.jobs.queues.queues_of_summaries`.

    A queue that was never that full, and held nobody, would have held nobody.
    """
    seen = queues.select(*PLACE, "peak_before", F.col("stopped_ms").alias("held_ms"))
    could_stop = (F.col("peak_before") > F.col("stop_count")) | F.col("stop_bytes").isNotNull()
    found = marks.join(seen, [*PLACE]).where((F.col("held_ms") > 0) | could_stop)
    longest = found.orderBy(F.desc("held_ms"), F.desc(F.col("peak_before") / F.col("stop_count")), *PLACE)
    return longest.limit(REPLAYED_MOST).select(marks.columns)


def what_if(found: DataFrame, marks: DataFrame, queues: DataFrame) -> DataFrame:
    """Compare queues before and after. `found` comes from `stops` with the same `marks`, `queues` from the job of this
    name for the rows that were replayed.
    """
    stopped = found.groupBy(*PLACE).agg(
        F.count(F.lit(1)).alias("stops"),
        F.sum("stopped_ms").alias("stopped_ms"),
        F.max("stopped_ms").alias("longest_ms"),
        F.max("peak_depth").alias("peak_depth"),
    )
    before = queues.select(
        *PLACE,
        F.col("last.stop_count").alias("was_stop_count"),
        F.col("last.resume_count").alias("was_resume_count"),
        F.col("stopped_ms").alias("was_stopped_ms"),
        F.col("peak_depth").alias("was_peak_depth"),
    )
    result = (
        marks.select(*PLACE, "stop_count", "resume_count")
        .join(before, [*PLACE])
        .join(stopped, [*PLACE], "left")
        .fillna(0, ["stops", "stopped_ms", "longest_ms"])
    )
    most = F.greatest("stopped_ms", "was_stopped_ms")
    return shaped(result, TABLE).orderBy(most.desc(), *PLACE)


def stopped_channels(found: DataFrame, episodes: DataFrame) -> DataFrame:
    """Match stops with channels. `found` comes from `stops`, `episodes` from the job of this name."""
    stopped = found.groupBy(*PLACE).agg(F.count(F.lit(1)).alias("stops"), F.sum("stopped_ms").alias("stopped_ms"))
    channels = episodes.where(F.col("queue").isNotNull()).select(
        *PLACE, "user", F.coalesce("product", F.lit(UNKNOWN)).alias("product"), "connection", "channel"
    )
    result = stopped.join(channels.distinct(), [*PLACE])
    return shaped(result, CHANNELS).orderBy(F.desc("stopped_ms"), *PLACE, "connection", "channel")


def replay(rows: Iterator[tuple[int, int, int, int, int, int, float, float]]) -> list[Stop]:
    """Replay the `rows` of a queue in order of time: ts, depth, published, acked, dropped, interval_ms, stop, resume
    (marks in messages, infinity for none). Returns the stops.
    """
    taken = list(rows)
    usual = _usual_drain(taken)
    found: list[Stop] = []
    stop: Stop | None = None
    depth = waiting = 0.0
    for number, (ts, seen, published, acked, dropped, interval, stop_mark, resume_mark) in enumerate(taken):
        if number == 0:
            depth = max(seen - published + acked + dropped, 0)
        waiting += published
        if stop is None:
            let_in = min(waiting, max(stop_mark + 1 - depth, 0))
            waiting -= let_in
            depth += let_in
            if depth > stop_mark:
                stop = Stop(ts)
                found.append(stop)
        if stop is not None:
            stop.last = ts
            stop.peak_depth = max(stop.peak_depth, int(depth))
            stop.peak_waiting = max(stop.peak_waiting, int(waiting))
        able = acked if seen > 0 else max(acked, usual * interval)
        depth = max(depth - able - dropped, 0)
        if stop is not None and depth <= resume_mark:
            stop.ended = ts
            stop = None
    return found


def _usual_drain(rows: list[tuple[int, int, int, int, int, int, float, float]]) -> float:
    """Return the median rate of acks while consumers had messages, in messages a ms; 0 if they never had."""
    rates = sorted(row[3] / row[5] for row in rows if row[1] > 0 and row[3] > 0 and row[5] > 0)
    return rates[len(rates) // 2] if rates else 0.0


def _replay_group(group: pa.Table) -> pa.Table:
    ordered = group.sort_by([("ts", "ascending"), ("seq", "ascending")])
    columns = [ordered.column(name).to_numpy().tolist() for name in REPLAYED if name != "seq"]
    place = {name: ordered.column(name)[0].as_py() for name in PLACE}
    result = [
        {
            **place,
            "started": stop.started,
            "ended": stop.ended,
            "stopped_ms": ((stop.ended or stop.last) - stop.started) // 1000,
            "peak_depth": stop.peak_depth,
            "peak_waiting": stop.peak_waiting,
        }
        for stop in replay(zip(*columns, strict=True))
    ]
    return pa.Table.from_pylist(result, arrow(STOPS))


def _mark(name: str, size: Expression) -> Expression:
    """Return a mark in messages: the smaller of the mark in messages and the mark in bytes, converted at the present
    mean size.
    """
    none = F.lit(inf)
    count, nbytes = F.col(f"try_{name}_count"), F.col(f"try_{name}_bytes")
    stops_by_count, stops_by_bytes = F.col("try_stop_count") > 0, F.col("try_stop_bytes") > 0
    by_count = F.when(stops_by_count, count.cast("double")).otherwise(none)
    by_bytes = F.when(stops_by_bytes, F.floor(F.try_divide(nbytes, size)).cast("double"))
    return F.least(by_count, F.coalesce(by_bytes, none)).alias(name)
