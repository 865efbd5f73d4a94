"""Rows of a table for a range of time, from the history where an hour has been compacted and from live files else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.telemetry.schema import TABLES, Table
from pipeline import layout
from pipeline.files import Files
from pipeline.layout import Hour, Manifest
from pipeline.schema import CORRUPT, PARTITION, empty, struct, with_corrupt


@dataclass(slots=True)
class Paths:
    """What to read: each hour by one of both, or by the history and the live files that came late."""

    live: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


class Telemetry:
    """What lies under a root directory (any that Spark can read). Listed once, when a table is first asked for."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root
        self.files = Files(spark)
        self._listed: dict[str, tuple[dict[Hour, list[str]], dict[Hour, Manifest]]] = {}

    def rows(self, name: str, since: int, until: int) -> DataFrame:
        """Rows with `since` <= ts < `until` (µs since 1970); those that do not fit their schema are left out."""
        table = TABLES[name]
        paths = self.paths(name, since, until)
        found = []
        if paths.live:
            found.append(self._live(table, paths.live).where(F.col(CORRUPT).isNull()).drop(CORRUPT))
        if paths.parts:
            found.append(self.spark.read.schema(struct(table)).parquet(*paths.parts))
        if not found:
            return empty(self.spark, table)
        frame = found[0] if len(found) == 1 else found[0].unionByName(found[1])
        return frame.where((F.col("ts") >= since) & (F.col("ts") < until))

    def corrupt(self, name: str, since: int, until: int) -> int:
        """How many rows of that time do not fit: of compacted hours as their manifests say, of others by a look."""
        table = TABLES[name]
        _, manifests = self._list(name)
        told = sum(manifest.corrupt for hour, manifest in manifests.items() if layout.reaches(hour, since, until))
        live = self.paths(name, since, until).live
        return told + (count_corrupt(self._live(table, live), table) if live else 0)

    def paths(self, name: str, since: int, until: int) -> Paths:
        """The files that may have rows of that time; no row is in two of them."""
        live, manifests = self._list(name)
        base = layout.history_base(self.root, name)
        chosen = Paths()
        for hour in sorted({*live, *manifests}):
            if layout.reaches(hour, since, until):
                manifest = manifests.get(hour)
                chosen.live += layout.late(live.get(hour, ()), manifest)
                if manifest:
                    chosen.parts += [f"{base}/{hour.path}/{part}" for part in manifest.parts]
        return chosen

    def hours(self) -> list[Hour]:
        """All hours of which there is something of any table."""
        return sorted({hour for name in TABLES for listed in self._list(name) for hour in listed})

    def _live(self, table: Table, files: Iterable[str]) -> DataFrame:
        return live_rows(self.spark, table, files)

    def _list(self, name: str) -> tuple[dict[Hour, list[str]], dict[Hour, Manifest]]:
        if name not in self._listed:
            self._listed[name] = (
                live_files(self.files, self.root, name),
                manifests(self.files, self.root, name),
            )
        return self._listed[name]


def live_files(files: Files, root: str, name: str) -> dict[Hour, list[str]]:
    """Files of the live tier that are complete, by hour."""
    found = files.matching(f"{layout.live_base(root, name)}/dt=*/hour=*/*.jsonl.zst")
    return layout.by_hour(found, layout.LIVE)


def manifests(files: Files, root: str, name: str) -> dict[Hour, Manifest]:
    """The hours of the history that are whole."""
    found = {}
    for path in files.matching(f"{layout.history_base(root, name)}/dt=*/hour=*/{layout.MANIFEST}"):
        hour, text = layout.hour_of(path), files.read(path)
        manifest = Manifest.read(text) if text is not None else None
        if hour is not None and manifest is not None:
            found[hour] = manifest
    return found


def live_rows(spark: SparkSession, table: Table, files: Iterable[str], base: str | None = None) -> DataFrame:
    """Rows of live files, with the text of each that does not fit in its column `CORRUPT`. With `base`, the directory
    that hours are in, they have the columns of `PARTITION` too.

    A file that the node has removed since, for want of room, counts as empty.
    """
    reader, schema = spark.read.option("ignoreMissingFiles", True), with_corrupt(table)
    if base is not None:
        reader, schema = reader.option("basePath", base), StructType([*schema.fields, *PARTITION.fields])
    return reader.schema(schema).json(list(files))


def count_corrupt(frame: DataFrame, table: Table) -> int:
    """How many rows do not fit. All columns are asked for: a column that is not is not looked at either."""
    columns = [F.col(column.name) for column in table.columns]
    checked = frame.select(F.col(CORRUPT).isNotNull().alias("corrupt"), F.hash(*columns).alias("all"))
    row = checked.agg(F.count_if("corrupt"), F.max("all")).first()
    return int(row[0]) if row else 0
