"""Hourly compaction: JSON lines of the live tier become sorted Parquet of the history.

An hour is due when it is closed and has live files that its manifest does not name. Running compaction twice changes
nothing: new live files are merged with the hour's history, and rows that are equal in every column become one. Parts
count from the moment a manifest names them; only then are the parts before them removed. A run that dies in between
leaves files that the next run removes. Nothing depends on an atomic rename, so object stores will do
(`pipeline.manifests`).

Small hours are compacted together, and one by one only if some of their rows or files are bad. Arrow (`pipeline.parts`)
compacts new hours whose rows all fit their table, and its parts are written where they belong. Spark's own readers and
writers compact all others: hours with a history, hours with a bad row or file to report, and hours too large to pass
through the driver. Spark names files as it likes, so these parts are staged, and moved one by one.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from penstock.telemetry.schema import TABLES, Table
from pipeline import layout
from pipeline.errors import PipelineError, is_read_failure, reason
from pipeline.files import Files
from pipeline.layout import Hour, Manifest
from pipeline.manifests import Directory, commit, read_directories, sweep
from pipeline.parts import parts
from pipeline.read import history, live_files, live_rows, manifests
from pipeline.runner import LIMIT_S, Runner
from pipeline.schema import CORRUPT, PARTITION, partitioned, struct
from pipeline.unreadable import separate, try_live

SORTED_BY = {
    "depth": ("node", "vhost", "queue"),
    "flow": ("node", "vhost", "queue"),
    "shard": ("node", "shard"),
    "connection": ("node", "connection"),
    "placement": ("node", "vhost", "queue"),
}
"""Columns by which rows are sorted, before time; rows that are equal in them are in one part."""
ROWS_A_PART = 500_000
BYTES_A_ROW = 28
"""Approximate size in compressed JSON, to estimate the number of parts before reading anything."""
ROWS_AT_ONCE = 1_000_000
"""Hours are compacted together up to this size: the smallest job costs a second or two."""
ROWS_BY_DRIVER = 20_000_000
"""Parts made by Arrow pass through the driver, which writes them wherever Spark can: some five bytes a row."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An hour of a table with new live files: the files, its manifest so far, its approximate number of rows, and the
    number of its next manifest.
    """

    hour: Hour
    new: Sequence[str]
    before: Manifest
    rows: int
    number: int = 1


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compacted hour of a table."""

    table: str
    hour: Hour
    files: int
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Staged:
    """The result for some hours before it counts: the paths of each hour's parts, staged or in place, with their rows,
    and the duplicate rows left out of each. For a single hour also the corrupt rows and unreadable files left out.
    """

    parts: Mapping[Hour, Mapping[str, int]]
    duplicates: Mapping[Hour, int]
    corrupt: int = 0
    unreadable: Sequence[str] = ()


def compact(
    spark: SparkSession,
    root: str,
    now: int,
    grace_us: int,
    tables: Sequence[str] = tuple(TABLES),
    limit_s: float = LIMIT_S,
) -> Iterator[Compacted]:
    """Compact every closed hour with new live files, the oldest first; yield each once it and all before it are done.

    `now` is in µs since 1970; `limit_s`: seconds that hours compacted together may take. PipelineError if files cannot
    be read or written, or in time.
    """
    files = Files(spark)
    with Runner(spark, limit_s) as runner:
        begun = list[Future[list[Compacted]]]()
        for name in tables:
            live = live_files(files, root, name)
            done = history(files, root, name, layout.span(live))
            remove_remains(files, root, name, done.values())
            for lot in lots(pending(files, live, done, now, grace_us)):
                job = partial(compact_hours, spark, root, name, lot)
                begun.append(runner.submit(f"{lot[0].hour} {name}", job))
        for each in begun:
            try:
                compacted = each.result()
            except PipelineError:
                raise
            except Exception as error:
                raise PipelineError(reason(error)) from error
            yield from compacted


def remove_remains(files: Files, root: str, name: str, done: Iterable[Directory[Manifest]]) -> None:
    """Remove files that dead runs staged for a table, or had replaced and not yet removed."""
    for left in files.matching(f"{layout.history_base(root, name)}/_staging-*"):
        files.delete(left)
    for directory in done:
        if directory.superseded:
            sweep(files, directory)


def pending(
    files: Files, live: Mapping[Hour, Sequence[str]], done: Mapping[Hour, Directory[Manifest]], now: int, grace_us: int
) -> Iterator[Pending]:
    """Yield the closed hours of a table that have new live files, the oldest first. `done`: the history of these hours
    and others.
    """
    for hour, paths in sorted(live.items()):
        directory: Directory[Manifest] = done.get(hour, Directory())
        before = directory.manifest or layout.NOTHING
        new = layout.late_files(paths, before)
        if new and layout.is_closed(hour, now, grace_us):
            rows = files.size(paths[0].rpartition("/")[0]) // BYTES_A_ROW
            yield Pending(hour, new, before, rows + before.rows, directory.next_number)


def lots(hours: Iterable[Pending]) -> Iterator[list[Pending]]:
    """Group hours in order into lots of about `ROWS_AT_ONCE` rows, of at least one hour each."""
    lot: list[Pending] = []
    for each in hours:
        if lot and sum(other.rows for other in lot) + each.rows > ROWS_AT_ONCE:
            yield lot
            lot = []
        lot.append(each)
    if lot:
        yield lot


def compact_hours(spark: SparkSession, root: str, name: str, lot: Sequence[Pending]) -> list[Compacted]:
    """Add the new live files of some hours of a table to the history."""
    files = Files(spark)
    run = uuid.uuid4().hex[:12]
    staging = f"{layout.history_base(root, name)}/_staging-{run}"
    try:
        staged = _stage(spark, root, TABLES[name], lot, staging, run)
        if staged is not None:
            return [_put_in_place(files, root, name, each, staged, run) for each in lot]
    finally:
        files.delete(staging)
    return [done for each in lot for done in compact_hours(spark, root, name, [each])]


def remove_live(files: Files, root: str, now: int, keep_us: int, tables: Sequence[str] = tuple(TABLES)) -> int:
    """Remove live files that are in the history and whose hour ended at least `keep_us` ago; return their number."""
    removed = 0
    for name in tables:
        live = live_files(files, root, name)
        done = manifests(files, root, name, layout.span(live))
        for hour, paths in live.items():
            if (manifest := done.get(hour)) is None or hour.ends + keep_us > now:
                continue
            known = frozenset(manifest.sources)
            for path in paths:
                if layout.name_of(path) in known:
                    files.delete(path)
                    removed += 1
    return removed


def _stage(
    spark: SparkSession, root: str, table: Table, lot: Sequence[Pending], staging: str, run: str
) -> Staged | None:
    """Make the parts of hours, staged or in place. None if there are several hours and some row or file is bad, as it
    is not known in which hour.
    """
    files = Files(spark)
    if sum(each.rows for each in lot) <= ROWS_BY_DRIVER and not any(each.before.parts for each in lot):
        if (staged := _write_by_arrow(spark, root, table, lot, run)) is not None:
            return staged
        if len(lot) > 1:
            return None
    readable, unreadable = [path for each in lot for path in each.new], list[str]()
    try:
        found, corrupt = _stage_by_spark(spark, root, table, readable, lot, staging)
    except Exception as error:  # a file that is truncated or not zstd ends the job
        if not is_read_failure(error):
            raise
        if len(lot) > 1:
            return None
        unreadable = separate(readable, partial(try_live, spark, struct(table)))
        if not unreadable:
            raise
        readable = [path for path in readable if path not in unreadable]
        found, corrupt = _stage_by_spark(spark, root, table, readable, lot, staging)
    written = layout.by_hour(files.matching(f"{staging}/dt=*/hour=*/part-*.parquet"), layout.PART)
    found_parts = {hour: {path: files.parquet_rows(path) for path in paths} for hour, paths in written.items()}
    kept = sum(rows for own in found_parts.values() for rows in own.values())
    duplicates = found - corrupt + sum(each.before.rows for each in lot) - kept
    if len(lot) > 1 and (corrupt or duplicates):
        return None
    return Staged(found_parts, {lot[0].hour: duplicates}, corrupt, unreadable)


def _write_by_arrow(spark: SparkSession, root: str, table: Table, lot: Sequence[Pending], run: str) -> Staged | None:
    """Make the parts of hours without a history by Arrow, in place. None, and no part, if a file is unreadable or has
    rows that do not fit.
    """
    hours = {each.hour.path: each.hour for each in lot}
    paths = [path for each in lot for path in each.new]
    buckets = 1 + sum(each.rows for each in lot) // ROWS_A_PART
    made = parts(spark, table.name, SORTED_BY[table.name], paths, buckets).collect()
    if any(row["odd"] is not None for row in made):
        return None
    files, written = Files(spark), defaultdict[Hour, dict[str, int]](dict)
    duplicates = Counter[Hour]()
    for row in made:
        hour = hours[row["hour"]]
        path = _part(root, table.name, hour, run, len(written[hour]))
        files.write(path, row["part"])
        written[hour][path] = row["rows"]
        duplicates[hour] += row["found"] - row["rows"]
    return Staged(written, duplicates)


def _part(root: str, name: str, hour: Hour, run: str, number: int) -> str:
    """Return the path of a part that counts once a manifest names it."""
    return f"{layout.history_base(root, name)}/{hour.path}/part-{run}-{number:04}.parquet"


def _put_in_place(files: Files, root: str, name: str, each: Pending, staged: Staged, run: str) -> Compacted:
    """Make the staged parts the history of an hour. With several hours, `staged` has no corrupt rows or unreadable
    files.
    """
    directory = f"{layout.history_base(root, name)}/{each.hour.path}"
    made, names = staged.parts.get(each.hour, {}), list[str]()
    files.make_directory(directory)
    for number, path in enumerate(made):
        target = _part(root, name, each.hour, run, number)
        names.append(layout.name_of(target))
        if path != target:
            files.move(path, target)
    sources, unreadable = (frozenset(map(layout.name_of, paths)) for paths in (each.new, staged.unreadable))
    manifest = Manifest(
        parts=tuple(names),
        sources=tuple(sorted(sources.union(each.before.sources) - unreadable)),
        rows=sum(made.values()),
        duplicates=each.before.duplicates + staged.duplicates.get(each.hour, 0),
        corrupt=each.before.corrupt + staged.corrupt,
        unreadable=tuple(sorted(unreadable.union(each.before.unreadable))),
    )
    commit(files, directory, each.number, manifest)
    for written in read_directories(files, directory, Manifest.from_json).values():
        sweep(files, written)
    return Compacted(name, each.hour, len(each.new), manifest)


def _stage_by_spark(
    spark: SparkSession, root: str, table: Table, new: Sequence[str], lot: Sequence[Pending], staging: str
) -> tuple[int, int]:
    """Write live files and the parts of the history to a directory, partitioned by hour. Returns the number of rows in
    the live files, and how many of them do not fit and were left out.
    """
    seen = Observation()
    frames = []
    if new:
        live = live_rows(spark, table, new, layout.live_base(root, table.name))
        counted = live.observe(
            seen, F.count(F.lit(1)).alias("rows"), F.count_if(F.col(CORRUPT).isNotNull()).alias("bad")
        )
        frames.append(counted.where(F.col(CORRUPT).isNull()).drop(CORRUPT))
    base = layout.history_base(root, table.name)
    if standing := [f"{base}/{each.hour.path}/{part}" for each in lot for part in each.before.parts]:
        frames.append(spark.read.schema(partitioned(table)).option("basePath", base).parquet(*standing))
    rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    keys = (*PARTITION.names, *SORTED_BY[table.name])
    count = 1 + sum(each.rows for each in lot) // ROWS_A_PART
    ordered = rows.repartition(count, *keys).dropDuplicates().sortWithinPartitions(*keys, "ts", "writer", "seq")
    writer = ordered.write.mode("overwrite").option("compression", "zstd").partitionBy(*PARTITION.names)
    writer.parquet(staging)
    if not new:
        return 0, 0
    counts = seen.get
    return int(counts["rows"]), int(counts["bad"])
