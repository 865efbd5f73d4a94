"""All answers for a range of time, as plain values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import TABLES, Table
from pipeline.jobs import (
    consumers,
    culprits,
    disobedience,
    episodes,
    held,
    hot_shards,
    marks,
    queues,
    rebalance_inputs,
    shard_load,
    time_to_full,
    what_if,
)
from pipeline.jobs.marks import Goals
from pipeline.ranges import Place, Range
from pipeline.read import Telemetry
from pipeline.recovery import on_readable_files
from pipeline.report.contents import POINTS, Answer, Curve, Report, Row
from pipeline.runner import LIMIT_S, Runner

ROWS_MOST = 200
"""Rows of an answer that are kept; for all rows, run the job itself."""
LOAD_ROWS_MOST = 20_000
CURVES = 4

ReportProgress = Callable[[str], None]


def gather(
    telemetry: Telemetry,
    since: int,
    until: int,
    goals: Goals,
    limits: hot_shards.Limits,
    report_progress: ReportProgress,
    limit_s: float = LIMIT_S,
    *,
    exact: bool = False,
) -> Report:
    """Run all jobs on the rows with `since` <= ts < `until` (µs since 1970), and report progress. `exact`: on rows even
    where there are summaries.

    Unreadable files are left out. PipelineError if a job fails for another reason, or takes longer than `limit_s`.
    """
    with Runner(telemetry.spark, limit_s) as runner:

        def job() -> Report:
            return _gather(Range(telemetry, since, until, exact=exact), runner, goals, limits, report_progress)

        return on_readable_files(telemetry, runner, job, report_progress)


def _gather(
    span: Range, runner: Runner, goals: Goals, limits: hot_shards.Limits, report_progress: ReportProgress
) -> Report:
    report = Report(span.telemetry.root, span.since, span.until, shard_load.SLOT_US, is_summarized=span.is_summarized)
    kept = Kept(runner)
    try:
        report_progress("rows, and facts that several answers use")
        counts = {name: runner.submit(f"rows of {name}", partial(span.count, name)) for name in TABLES}
        report.counts = {name: each.result() for name, each in counts.items()}
        jobs = {table.name: (table, frame) for table, frame in _jobs(span, kept, goals, limits)}

        def answer(number: int, table: Table, frame: DataFrame) -> Answer:
            report_progress(f"{number} of {len(jobs)}: {table.name.replace('_', ' ')}")
            return _answer(table, frame)

        answers = {
            name: runner.submit(name.replace("_", " "), partial(answer, number, table, frame))
            for number, (name, (table, frame)) in enumerate(jobs.items(), 1)
        }
        report.answers = {name: result.result() for name, result in answers.items()}
        report_progress("curves of queues that held producers")
        most = report.answers[marks.TABLE.name].rows
        report.curves = runner.run("curves", partial(_curves, span, most))
    finally:
        runner.cancel()
        kept.release()
    report.unreadable = {name: span.telemetry.unreadable(name, span.since, span.until) for name in TABLES}
    return report


class Kept:
    """Frames that several jobs use, computed once.

    Spark computes a kept frame when a job first asks for it, under a lock; a task that then fails makes it take the
    locks of all frames that use this one. Two jobs that do both at once wait for each other for ever. So frames are
    computed before jobs that share them run side by side.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._frames: list[DataFrame] = []

    def keep(self, **frames: DataFrame) -> None:
        """Compute frames side by side, none of which uses another one; each has the name of its job."""
        self._frames += frames.values()
        begun = [self._runner.submit(name.replace("_", " "), partial(keep, frame)) for name, frame in frames.items()]
        for each in begun:
            each.result()

    def places(self, frame: DataFrame) -> list[Place]:
        """Return the queues that a frame names."""
        places = frame.select(*queues.PLACE).distinct()
        return [(row[0], row[1], row[2]) for row in self._runner.run("queues", places.collect)]

    def release(self) -> None:
        """Give back the memory of all frames."""
        if self._runner.stuck is None:
            for frame in self._frames:
                frame.unpersist()


def keep(frame: DataFrame) -> None:
    """Compute a frame and keep it for the jobs that use it."""
    frame.persist()
    frame.count()


def _jobs(span: Range, kept: Kept, goals: Goals, limits: hot_shards.Limits) -> Iterator[tuple[Table, DataFrame]]:
    """Yield each answer, not computed yet; what several of them use is computed."""
    facts, load = span.queues(), span.load()
    found = episodes.episodes(span.rows("flow"), span.until)
    kept.keep(queues=facts, episodes=found, shard_load=load)
    recommended = marks.marks(facts, found, goals)
    kept.keep(marks=recommended)
    since, last_day = span.last_day
    held_depth, tried, tried_depth, before = span.rows("depth"), recommended, span.rows("depth"), facts
    if span.is_summarized:
        held_depth = span.depth_of(kept.places(found.where(F.col("queue").isNotNull())))
        tried = what_if.worth_replaying(recommended, facts)
        tried_depth = span.depth_of(kept.places(tried), last_day)
        before = queues.queues(tried_depth)
    replayed = what_if.stops(tried_depth, tried)
    kept.keep(what_if_stops=replayed)
    yield episodes.TABLE, found.orderBy(F.desc("stopped_ms"), "started", "connection", "channel")
    yield held.TABLE, held.held(found)
    yield disobedience.TABLE, disobedience.disobedience(found, span.rows("connection"))
    yield culprits.TABLE, culprits.culprits(found, held_depth, span.until)
    yield time_to_full.TABLE, time_to_full.time_to_full(last_day, since, span.until)
    yield marks.TABLE, recommended
    yield what_if.STOPS, replayed
    yield what_if.TABLE, what_if.what_if(replayed, tried, before)
    yield what_if.CHANNELS, what_if.stopped_channels(replayed, found)
    yield consumers.TABLE, consumers.consumers(facts, consumers.Limits())
    yield shard_load.TABLE, load
    yield hot_shards.TABLE, hot_shards.hot_shards(load, limits)
    yield rebalance_inputs.TABLE, rebalance_inputs.rebalance_inputs(span.with_rates(facts), span.since, span.until)


def _answer(table: Table, frame: DataFrame) -> Answer:
    began = time.monotonic()
    most = LOAD_ROWS_MOST if table is shard_load.TABLE else ROWS_MOST
    rows = [row.asDict() for row in frame.limit(most + 1).collect()]
    return Answer(table, rows[:most], len(rows) > most, round(time.monotonic() - began, 1))


def _curves(span: Range, recommended: list[Row]) -> list[Curve]:
    """Return the depths of the queues that held producers longest."""
    chosen = [_place(row) for row in recommended if row["stopped_ms"]][:CURVES]
    if not chosen:
        return []
    since, slot = span.since, max((span.until - span.since) // POINTS, 1)
    rows = (
        span.depth_of(chosen)
        .groupBy(*queues.PLACE, F.expr(f"(ts - {since}) div {slot}").alias("slot"))
        .agg(
            F.max(queues.backlog()).alias("depth"),
            F.max("stop_count").alias("stop_count"),
            F.max("resume_count").alias("resume_count"),
        )
        .orderBy("slot")
        .collect()
    )
    curves = []
    for place in chosen:
        own = [row for row in rows if _place(row.asDict()) == place]
        points = [(since + row["slot"] * slot, row["depth"]) for row in own]
        curves.append(Curve(*place, points, own[-1]["stop_count"], own[-1]["resume_count"]))
    return curves


def _place(row: Row) -> Place:
    return row["node"], row["vhost"], row["queue"]
