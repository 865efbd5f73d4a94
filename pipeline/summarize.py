"""The making of summaries, as the last step of a compaction: of each hour whose summary is missing or not current, then
of each day that is over.

As with the history, parts count from the moment their manifest names them, and a run that dies leaves parts that the
next one removes.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.telemetry.schema import TABLES
from pipeline import layout
from pipeline.errors import PipelineError, reason
from pipeline.files import Files
from pipeline.jobs.shard_load import shard_load
from pipeline.layout import HOUR_US, Hour
from pipeline.manifests import Directory, commit, read_directories, sweep
from pipeline.read import manifests
from pipeline.runner import LIMIT_S, Runner
from pipeline.schema import struct
from pipeline.spans import Span, known_days
from pipeline.summaries.choice import due_days
from pipeline.summaries.layout import QUEUE_DAYS, QUEUE_HOURS, TABLE_OF, Manifest, current, day_path, parts_of
from pipeline.summaries.parts import STRUCT, day_parts, hour_parts
from pipeline.summaries.read import days_of, hours_of, read_days, read_hours
from pipeline.unreadable import separate, try_parts

ROWS_AT_ONCE = 20_000_000
"""Hours are summarized together up to this number of rows: each part is a task, and its summary is small."""


@dataclass(frozen=True, slots=True)
class Made:
    """A summary that was made: its dataset, the path of its hour or day, and its manifest."""

    dataset: str
    span: str
    manifest: Manifest

    def __str__(self) -> str:
        return f"{self.manifest.summaries:,} summaries of {self.manifest.rows:,} rows"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A summary that was not made, as parts that it needs cannot be read: its dataset, its hour or day, their paths."""

    dataset: str
    span: str
    unreadable: Sequence[str]

    def __str__(self) -> str:
        return f"no summary, unreadable: {', '.join(self.unreadable)}"


class Part(NamedTuple):
    """A part of an hour or a day (its path): a Parquet file, and the numbers of summaries in it, of rows in these, and
    of rows lost before those.
    """

    span: str
    summaries: int
    rows: int
    lost: int
    part: bytes


Job = Callable[[SparkSession, Sequence[str]], list[Part]]
"""Makes parts from parts, by their paths."""


def summarize(
    spark: SparkSession, root: str, now: int, grace_us: int, limit_s: float = LIMIT_S
) -> Iterator[Made | Skipped]:
    """Make all summaries that are missing or not current, and yield each. `now` is in µs since 1970; `limit_s`: seconds
    that hours summarized together, or the hours of a day, may take.

    PipelineError if files cannot be listed or written, or not in time.
    """
    files = Files(spark)
    with Runner(spark, limit_s) as runner:
        try:
            span = _span_of_due(files, root)
            for dataset in TABLE_OF:
                yield from _make_hours(files, runner, root, dataset, span)
            yield from _make_days(files, runner, root, span, now, grace_us)
        except PipelineError:
            raise
        except Exception as error:
            raise PipelineError(reason(error)) from error


def lots(hours: Iterable[tuple[Hour, layout.Manifest]]) -> Iterator[dict[Hour, layout.Manifest]]:
    """Group hours in order into lots of about `ROWS_AT_ONCE` rows, of at least one hour each."""
    lot: dict[Hour, layout.Manifest] = {}
    for hour, manifest in hours:
        if lot and sum(other.rows for other in lot.values()) + manifest.rows > ROWS_AT_ONCE:
            yield lot
            lot = {}
        lot[hour] = manifest
    if lot:
        yield lot


def _span_of_due(files: Files, root: str) -> Span:
    """Return the time of the days that may lack summaries: those with live files, and those without a summary of the
    day, which is made last.
    """
    live = {day for table in TABLE_OF.values() for day in known_days(files, layout.live_base(root, table))}
    past, summarized = (
        {*known_days(files, layout.history_base(root, name))} for name in (TABLE_OF[QUEUE_HOURS], QUEUE_DAYS)
    )
    due = sorted(live | (past - summarized))
    return (Hour(due[0], 0).begins, Hour(due[-1], 23).ends) if due else (0, 0)


def _make_hours(files: Files, runner: Runner, root: str, dataset: str, span: Span) -> Iterator[Made | Skipped]:
    """Make the summaries of hours."""
    table = TABLE_OF[dataset]
    done, history = read_hours(files, root, dataset, span), manifests(files, root, table, span)
    _sweep(files, done.values())
    missing = history.keys() - current(hours_of(root, dataset, done), history).keys()
    for lot in lots((hour, history[hour]) for hour in sorted(missing)):
        paths = [
            f"{layout.history_base(root, table)}/{hour.path}/{part}" for hour, own in lot.items() for part in own.parts
        ]
        job = _queue_hours if dataset == QUEUE_HOURS else _shard_slots
        found, unreadable = _readable(runner, f"{next(iter(lot))} {dataset}", job, paths, struct(TABLES[table]))
        made: dict[str, list[Part]] = defaultdict(list)
        for part in found:
            made[part.span].append(part)
        for hour, own in lot.items():
            if bad := [path for path in unreadable if layout.hour_of(path) == hour]:
                yield Skipped(dataset, hour.path, bad)
                continue
            number = done[hour].next_number if hour in done else 1
            yield _put_in_place(files, root, dataset, hour.path, number, made[hour.path], own.parts)


def _make_days(
    files: Files, runner: Runner, root: str, span: Span, now: int, grace_us: int
) -> Iterator[Made | Skipped]:
    """Make the summaries of days."""
    history, done = manifests(files, root, TABLE_OF[QUEUE_HOURS], span), read_days(files, root, span)
    hours = hours_of(root, QUEUE_HOURS, read_hours(files, root, QUEUE_HOURS, span))
    _sweep(files, done.values())
    for day, own in due_days(history, hours, days_of(root, done), now, grace_us).items():
        paths = [path for summary in own for path in summary.paths]
        job = partial(_queue_day, summaries=sum(summary.manifest.summaries for summary in own))
        parts, unreadable = _readable(runner, f"{day} {QUEUE_DAYS}", job, paths, STRUCT[QUEUE_HOURS])
        if unreadable:
            yield Skipped(QUEUE_DAYS, day_path(day), unreadable)
            continue
        number = done[day].next_number if day in done else 1
        yield _put_in_place(files, root, QUEUE_DAYS, day_path(day), number, parts, parts_of(own))


def _readable(
    runner: Runner, name: str, job: Job, paths: Sequence[str], schema: StructType
) -> tuple[list[Part], list[str]]:
    """Run a job on the parts of the hours that can be read. Returns its results, and the paths of parts that cannot
    be. Other failures of the job are raised.
    """
    if not paths:
        return [], []
    try:
        return runner.run(name, partial(job, runner.spark, paths)), []
    except PipelineError:
        raise
    except Exception:
        search = partial(separate, paths, partial(try_parts, runner.spark, schema))
        unreadable = runner.run("a search for unreadable files", search)
        if not unreadable:
            raise
    hours = {layout.hour_of(path) for path in unreadable}
    rest = [path for path in paths if layout.hour_of(path) not in hours]
    return (runner.run(name, partial(job, runner.spark, rest)) if rest else []), unreadable


def _queue_hours(spark: SparkSession, paths: Sequence[str]) -> list[Part]:
    return [Part(*row) for row in hour_parts(spark, paths).collect()]


def _queue_day(spark: SparkSession, paths: Sequence[str], summaries: int) -> list[Part]:
    return [Part(*row) for row in day_parts(spark, paths, summaries).collect()]


def _shard_slots(spark: SparkSession, paths: Sequence[str]) -> list[Part]:
    rows = spark.read.schema(struct(TABLES["shard"])).parquet(*paths)
    counts = rows.groupBy(F.expr(f"ts div {HOUR_US}").alias("hour")).agg(F.count(F.lit(1)), F.sum("rows_lost"))
    slots = shard_load(rows).toArrow()
    hour_of_slot = pc.divide(slots.column("slot"), HOUR_US)
    found = []
    for hour, count, lost in counts.collect():
        part, own = pa.BufferOutputStream(), slots.filter(pc.equal(hour_of_slot, hour))
        pq.write_table(own, part, compression="zstd", store_schema=False)
        found.append(Part(Hour.of(hour * HOUR_US).path, own.num_rows, count, lost or 0, part.getvalue().to_pybytes()))
    return found


def _put_in_place(
    files: Files, root: str, dataset: str, span: str, number: int, parts: Sequence[Part], sources: Iterable[str]
) -> Made:
    """Write the parts of an hour or a day (its path), and make them count by the manifest of that number."""
    directory, run, names = f"{layout.history_base(root, dataset)}/{span}", uuid.uuid4().hex[:12], list[str]()
    files.make_directory(directory)
    for part in parts:
        names.append(f"part-{run}-{len(names):04}.parquet")
        files.write(f"{directory}/{names[-1]}", part.part)
    summaries, rows, lost = (sum(getattr(part, name) for part in parts) for name in ("summaries", "rows", "lost"))
    manifest = Manifest(tuple(names), tuple(sources), summaries, rows, lost)
    commit(files, directory, number, manifest)
    for written in read_directories(files, directory, Manifest.from_json).values():
        sweep(files, written)
    return Made(dataset, span, manifest)


def _sweep(files: Files, directories: Iterable[Directory[Manifest]]) -> None:
    """Remove what manifests have superseded."""
    for directory in directories:
        if directory.superseded:
            sweep(files, directory)
