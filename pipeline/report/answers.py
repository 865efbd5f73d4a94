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
from pipeline.read import Telemetry
from pipeline.recovery import on_readable_files
from pipeline.report.contents import POINTS, Answer, Curve, Report, Row
from pipeline.runner import LIMIT_S, Runner

ROWS_MOST = 200
"""Rows of an answer that are kept; for all rows, run the job itself."""
LOAD_ROWS_MOST = 20_000
SHARED = (("queues", episodes.TABLE.name, shard_load.TABLE.name), (marks.TABLE.name,), (what_if.STOPS.name,))
"""Frames that several answers use, each after those that it uses itself."""
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
) -> Report:
    """Run all jobs on the rows with `since` <= ts < `until` (µs since 1970), and report progress.

    Unreadable files are left out. PipelineError if a job fails for another reason, or takes longer than `limit_s`.
    """
    with Runner(telemetry.spark, limit_s) as runner:
        job = partial(_gather, telemetry, runner, since, until, goals, limits, report_progress)
        return on_readable_files(telemetry, runner, job, report_progress)


def _gather(
    telemetry: Telemetry,
    runner: Runner,
    since: int,
    until: int,
    goals: Goals,
    limits: hot_shards.Limits,
    report_progress: ReportProgress,
) -> Report:
    frames = {name: telemetry.rows(name, since, until) for name in TABLES}
    facts = queues.queues(frames["depth"])
    jobs = {table.name: (table, frame) for table, frame in _jobs(frames, facts, since, until, goals, limits)}
    shared = {"queues": facts} | {name: frame for name, (_, frame) in jobs.items()}
    report = Report(telemetry.root, since, until, shard_load.SLOT_US)

    def count(name: str) -> dict[str, int]:
        return _count(frames[name], telemetry.corrupt(name, since, until))

    def answer(number: int, table: Table, frame: DataFrame) -> Answer:
        report_progress(f"{number} of {len(jobs)}: {table.name.replace('_', ' ')}")
        return _answer(table, frame)

    try:
        report_progress("rows, and facts that several answers use")
        counts = {name: runner.submit(f"rows of {name}", partial(count, name)) for name in TABLES}
        report.counts = {name: each.result() for name, each in counts.items()}
        for names in SHARED:
            kept = [runner.submit(name.replace("_", " "), partial(keep, shared[name])) for name in names]
            for each in kept:
                each.result()
        answers = {
            name: runner.submit(name.replace("_", " "), partial(answer, number, table, frame))
            for number, (name, (table, frame)) in enumerate(jobs.items(), 1)
        }
        report.answers = {name: result.result() for name, result in answers.items()}
        report_progress("curves of queues that held producers")
        most = report.answers[marks.TABLE.name].rows
        report.curves = runner.run("curves", partial(_curves, frames["depth"], most, since, until))
    finally:
        runner.cancel()
        if runner.has_java:
            for name in (name for names in SHARED for name in names):
                shared[name].unpersist()
    report.unreadable = {name: telemetry.unreadable(name, since, until) for name in TABLES}
    return report


def keep(frame: DataFrame) -> None:
    """Compute a frame and keep it for the jobs that use it.

    Spark computes a kept frame when a job first asks for it, under a lock; a task that then fails makes it take the
    locks of all frames that use this one. Two jobs that do both at once wait for each other for ever. So frames are
    computed before jobs that share them run side by side.
    """
    frame.persist()
    frame.count()


def _jobs(
    frames: dict[str, DataFrame],
    facts: DataFrame,
    since: int,
    until: int,
    goals: Goals,
    limits: hot_shards.Limits,
) -> Iterator[tuple[Table, DataFrame]]:
    """Yield each answer, not computed yet, after the answers that it uses. `facts` comes from
    `pipeline.jobs.queues`.
    """
    depth = frames["depth"]
    found = episodes.episodes(frames["flow"], until).orderBy(F.desc("stopped_ms"), "started", "connection", "channel")
    load = shard_load.shard_load(frames["shard"])
    recommended = marks.marks(facts, found, goals)
    replayed = what_if.stops(depth, recommended)
    yield episodes.TABLE, found
    yield held.TABLE, held.held(found)
    yield disobedience.TABLE, disobedience.disobedience(found, frames["connection"])
    yield culprits.TABLE, culprits.culprits(found, depth, until)
    yield time_to_full.TABLE, time_to_full.time_to_full(depth, since, until)
    yield marks.TABLE, recommended
    yield what_if.STOPS, replayed
    yield what_if.TABLE, what_if.what_if(replayed, recommended, facts)
    yield what_if.CHANNELS, what_if.stopped_channels(replayed, found)
    yield consumers.TABLE, consumers.consumers(facts, consumers.Limits())
    yield shard_load.TABLE, load
    yield hot_shards.TABLE, hot_shards.hot_shards(load, limits)
    yield rebalance_inputs.TABLE, rebalance_inputs.rebalance_inputs(depth, facts, since, until)


def _answer(table: Table, frame: DataFrame) -> Answer:
    began = time.monotonic()
    most = LOAD_ROWS_MOST if table is shard_load.TABLE else ROWS_MOST
    rows = [row.asDict() for row in frame.limit(most + 1).collect()]
    return Answer(table, rows[:most], len(rows) > most, round(time.monotonic() - began, 1))


def _count(frame: DataFrame, corrupt: int) -> dict[str, int]:
    row = frame.agg(F.count(F.lit(1)), F.coalesce(F.sum("rows_lost"), F.lit(0))).first()
    assert row is not None
    return {"rows": int(row[0]), "corrupt": corrupt, "lost": int(row[1])}


def _curves(depth: DataFrame, recommended: list[Row], since: int, until: int) -> list[Curve]:
    """Return the depths of the queues that held producers longest."""
    chosen = [_place(row) for row in recommended if row["stopped_ms"]][:CURVES]
    if not chosen:
        return []
    slot = max((until - since) // POINTS, 1)
    wanted = F.lit(False)
    for node, vhost, queue in chosen:
        wanted = wanted | ((F.col("node") == node) & (F.col("vhost") == vhost) & (F.col("queue") == queue))
    rows = (
        depth.where(wanted)
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


def _place(row: Row) -> tuple[str, str, str]:
    return row["node"], row["vhost"], row["queue"]
