"""Rows of a table for a range of time: from the history for compacted hours, else from live files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.telemetry.schema import TABLES, Table
from pipeline import layout
from pipeline.errors import file_of
from pipeline.files import Files
from pipeline.layout import Hour, Manifest
from pipeline.manifests import Directory, read_directories
from pipeline.schema import CORRUPT, PARTITION, empty, struct, with_corrupt
from pipeline.spans import Span, hours
from pipeline.summaries.choice import Choice, choose
from pipeline.summaries.layout import QUEUE_HOURS, TABLE_OF, Summary
from pipeline.summaries.parts import STRUCT
from pipeline.summaries.read import days_of, hours_of, read_days, read_hours
from pipeline.unreadable import separate, try_live, try_parts


@dataclass(slots=True)
class Paths:
    """The files to read: per hour live files, the history, or the history and live files that came late."""

    live: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


class Telemetry:
    """The telemetry under a root directory that Spark can read. Each table is listed once for a range of time, when it
    is first asked for.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root
        self.files = Files(spark)
        self._listed: dict[tuple[str, int, int], tuple[dict[Hour, list[str]], dict[Hour, Manifest]]] = {}
        self._summaries: dict[tuple[str, int, int], tuple[dict[Hour, Summary], dict[str, Summary]]] = {}
        self._asked: set[tuple[str, int, int]] = set()
        self._asked_summaries: set[tuple[str, int, int]] = set()
        self._left_out = defaultdict[str, set[str]](set)

    def rows(self, name: str, since: int, until: int, without: frozenset[Hour] = frozenset()) -> DataFrame:
        """Return rows with `since` <= ts < `until` (µs since 1970), without those that do not fit their schema, and
        without some hours.
        """
        table = TABLES[name]
        paths = self.paths(name, since, until, without)
        found = []
        if paths.live:
            found.append(self._live(table, paths.live).where(F.col(CORRUPT).isNull()).drop(CORRUPT))
        if paths.parts:
            found.append(self.spark.read.schema(struct(table)).parquet(*paths.parts))
        if not found:
            return empty(self.spark, struct(table))
        frame = found[0] if len(found) == 1 else found[0].unionByName(found[1])
        return frame.where((F.col("ts") >= since) & (F.col("ts") < until))

    def corrupt(self, name: str, since: int, until: int) -> int:
        """Count the rows of that time that do not fit: by the manifests of compacted hours, and in the live files of
        others.
        """
        table = TABLES[name]
        _, manifests = self._list(name, since, until)
        compacted = sum(manifest.corrupt for hour, manifest in manifests.items() if layout.reaches(hour, since, until))
        live = self.paths(name, since, until).live
        return compacted + (count_corrupt(self._live(table, live), table) if live else 0)

    def summaries(self, dataset: str, since: int, until: int) -> Choice:
        """Return the summaries that answer for the rows with `since` <= ts < `until` (µs since 1970), as far as they
        can be read.
        """
        self._asked_summaries.add((dataset, since, until))
        live, history = self._list(TABLE_OF[dataset], since, until)
        of_hours, of_days = self._list_summaries(dataset, since, until)
        left_out = self._left_out[dataset]
        of_hours = {hour: summary for hour, summary in of_hours.items() if left_out.isdisjoint(summary.paths)}
        of_days = {day: summary for day, summary in of_days.items() if left_out.isdisjoint(summary.paths)}
        return choose(since, until, live, history, of_hours, of_days)

    def paths(self, name: str, since: int, until: int, without: frozenset[Hour] = frozenset()) -> Paths:
        """Return the files that may have rows of that time, except for some hours, and can be read; no row is in two of
        them.
        """
        self._asked.add((name, since, until))
        live, manifests = self._list(name, since, until)
        base = layout.history_base(self.root, name)
        chosen = Paths()
        for hour in sorted({*live, *manifests}):
            if layout.reaches(hour, since, until) and hour not in without:
                manifest = manifests.get(hour)
                chosen.live += layout.late_files(live.get(hour, ()), manifest)
                if manifest:
                    chosen.parts += [f"{base}/{hour.path}/{part}" for part in manifest.parts]
        left_out = self._left_out[name]
        return Paths(*([path for path in own if path not in left_out] for own in (chosen.live, chosen.parts)))

    def unreadable(self, name: str, since: int, until: int) -> list[str]:
        """Return the names of the files of that time that were left out: by compactions, and here."""
        _, manifests = self._list(name, since, until)
        hours = {hour for hour in manifests if layout.reaches(hour, since, until)}
        found = {file for hour in hours for file in manifests[hour].unreadable}
        for path in self._left_out[name]:
            hour = layout.hour_of(path)
            if hour is not None and layout.reaches(hour, since, until):
                found.add(layout.name_of(path))
        return sorted(found)

    def relist(self) -> bool:
        """List again; return whether a compaction has changed the history of a table that was asked for."""
        before = {asked: manifests for asked, (_, manifests) in self._listed.items()}
        summaries = dict(self._summaries)
        self._listed.clear()
        self._summaries.clear()
        changed = [self._list(*asked)[1] != manifests for asked, manifests in before.items()]
        changed += [self._list_summaries(*asked) != found for asked, found in summaries.items()]
        return any(changed)

    def leave_out_unreadable(self, error: Exception) -> list[str]:
        """Read the files asked for so far, of the table and tier whose file an error names, and leave out from now on
        those that cannot be read. Returns their paths.
        """
        named = file_of(error)
        found: set[str] = set()
        for name, since, until in sorted(self._asked):
            paths = self.paths(name, since, until)
            for own, attempt in ((paths.live, try_live), (paths.parts, try_parts)):
                if named is None or layout.name_of(named) in map(layout.name_of, own):
                    unreadable = separate(own, partial(attempt, self.spark, struct(TABLES[name])))
                    self._left_out[name].update(unreadable)
                    found.update(unreadable)
        for dataset, since, until in sorted(self._asked_summaries):
            own = self.summaries(dataset, since, until).paths
            if named is None or layout.name_of(named) in map(layout.name_of, own):
                unreadable = separate(own, partial(try_parts, self.spark, STRUCT[dataset]))
                self._left_out[dataset].update(unreadable)
                found.update(unreadable)
        return sorted(found)

    def _live(self, table: Table, files: Iterable[str]) -> DataFrame:
        return live_rows(self.spark, table, files)

    def _list(self, name: str, since: int, until: int) -> tuple[dict[Hour, list[str]], dict[Hour, Manifest]]:
        asked = name, since, until
        if asked not in self._listed:
            self._listed[asked] = (
                live_files(self.files, self.root, name, (since, until)),
                manifests(self.files, self.root, name, (since, until)),
            )
        return self._listed[asked]

    def _list_summaries(self, dataset: str, since: int, until: int) -> tuple[dict[Hour, Summary], dict[str, Summary]]:
        asked = dataset, since, until
        if asked not in self._summaries:
            span = since, until
            of_days = days_of(self.root, read_days(self.files, self.root, span)) if dataset == QUEUE_HOURS else {}
            of_hours = hours_of(self.root, dataset, read_hours(self.files, self.root, dataset, span))
            self._summaries[asked] = of_hours, of_days
        return self._summaries[asked]


def live_files(files: Files, root: str, name: str, span: Span | None = None) -> dict[Hour, list[str]]:
    """Return the complete files of the live tier, by hour; with a span of time, those of the days that it reaches."""
    found = files.matching(f"{hours(files, layout.live_base(root, name), span)}/*.jsonl.zst")
    return layout.by_hour(found, layout.LIVE)


def history(files: Files, root: str, name: str, span: Span | None = None) -> dict[Hour, Directory[Manifest]]:
    """Return the directories of the history, by hour; with a span of time, those of the days that it reaches."""
    found = read_directories(files, hours(files, layout.history_base(root, name), span), Manifest.from_json)
    return {hour: directory for path, directory in found.items() if (hour := layout.hour_of(path)) is not None}


def manifests(files: Files, root: str, name: str, span: Span | None = None) -> dict[Hour, Manifest]:
    """Return the manifests of the history, by hour, as `history` does; hours without a complete one are left out."""
    found = history(files, root, name, span)
    return {hour: directory.manifest for hour, directory in found.items() if directory.manifest is not None}


def live_rows(spark: SparkSession, table: Table, files: Iterable[str], base: str | None = None) -> DataFrame:
    """Return rows of live files; the text of a row that does not fit is in its column `CORRUPT`. With `base`, the
    directory of the hours, rows also have the columns of `PARTITION`.

    A file that the node has removed in the meantime, for lack of space, counts as empty.
    """
    reader, schema = spark.read.option("ignoreMissingFiles", True), with_corrupt(table)
    if base is not None:
        reader, schema = reader.option("basePath", base), StructType([*schema.fields, *PARTITION.fields])
    return reader.schema(schema).json(list(files))


def count_corrupt(frame: DataFrame, table: Table) -> int:
    """Count the rows that do not fit. The query uses every column, as Spark does not parse unused ones."""
    columns = [F.col(column.name) for column in table.columns]
    checked = frame.select(F.col(CORRUPT).isNotNull().alias("corrupt"), F.hash(*columns).alias("all"))
    row = checked.agg(F.count_if("corrupt"), F.max("all")).first()
    return int(row[0]) if row else 0
