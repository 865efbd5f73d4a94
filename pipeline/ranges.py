"""What the jobs read of a range of time: rows, or summaries as far as there are any.

A long range is answered from the summaries of its whole hours and days. Rows are read only of its ends, of hours that
are not compacted, and of few queues: the cost grows with the number of queues, not with that of their rows.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.jobs.queues import PLACE, queues, queues_of_summaries
from pipeline.jobs.rebalance_inputs import with_rates
from pipeline.jobs.shard_load import shard_load
from pipeline.layout import HOUR_US
from pipeline.read import Telemetry
from pipeline.schema import empty
from pipeline.summaries.choice import Choice
from pipeline.summaries.layout import QUEUE_HOURS, SHARD_SLOTS, TABLE_OF
from pipeline.summaries.parts import STRUCT, merged_parts, of_rows

DAY_US = 24 * HOUR_US
LONG_US = DAY_US + HOUR_US
"""A range that is longer is answered from summaries: the default, a day, is not."""
NAMES_MOST = 1_000
"""Rows of up to this number of queues are found without reading those of others (`pipeline.session`)."""

Place = tuple[str, str, str]
"""Node, vhost and queue."""


class Range:
    """The rows with `since` <= ts < `until` (µs since 1970), or their summaries; `exact`: rows, however many."""

    def __init__(self, telemetry: Telemetry, since: int, until: int, *, exact: bool = False) -> None:
        self.telemetry, self.since, self.until = telemetry, since, until
        self._choices: dict[str, Choice] = {}
        if not exact and until - since > LONG_US:
            for dataset, table in TABLE_OF.items():
                choice = telemetry.summaries(dataset, since, until)
                if choice.covered:
                    self._choices[table] = choice

    @property
    def is_summarized(self) -> bool:
        """Whether queues are known by summaries."""
        return TABLE_OF[QUEUE_HOURS] in self._choices

    def rows(self, table: str) -> DataFrame:
        """Return all rows of a table."""
        return self.telemetry.rows(table, self.since, self.until)

    @cached_property
    def last_day(self) -> tuple[int, DataFrame]:
        """The beginning of the last day, or of the range if that is shorter, and the rows of `depth` since."""
        since = max(self.since, self.until - DAY_US)
        return since, self.telemetry.rows("depth", since, self.until)

    def depth_of(self, places: Collection[Place], depth: DataFrame | None = None) -> DataFrame:
        """Return the rows of some queues: of `depth`, or of the whole range."""
        names = {queue for *_, queue in places}
        if depth is None:
            depth = self.rows("depth")
        if len(names) <= NAMES_MOST:
            depth = depth.where(F.col("queue").isin(sorted(names)))
        wanted = self.telemetry.spark.createDataFrame(sorted(places), "node string, vhost string, queue string")
        return depth.join(F.broadcast(wanted), [*PLACE], "left_semi")

    def queues(self) -> DataFrame:
        """Return the facts of each queue: `pipeline.jobs.queues`."""
        if not self.is_summarized:
            return queues(self.rows("depth"))
        paths = self._choices[TABLE_OF[QUEUE_HOURS]].paths
        stored = merged_parts(self.telemetry.spark, paths) if paths else self._none(QUEUE_HOURS)
        return queues_of_summaries(stored.unionByName(of_rows(self._other_rows("depth"))))

    def with_rates(self, queues: DataFrame) -> DataFrame:
        """Return the facts of each queue with its rates: `pipeline.jobs.rebalance_inputs`. `queues` comes from the
        method of this name.
        """
        return queues if self.is_summarized else with_rates(queues, self.rows("depth"))

    def load(self) -> DataFrame:
        """Return the load of each shard: `pipeline.jobs.shard_load`."""
        if "shard" not in self._choices:
            return shard_load(self.rows("shard"))
        paths, reader = self._choices["shard"].paths, self.telemetry.spark.read.schema(STRUCT[SHARD_SLOTS])
        slots = reader.parquet(*paths) if paths else self._none(SHARD_SLOTS)
        load = slots.unionByName(shard_load(self._other_rows("shard")))
        return load.orderBy("node", "shard", "slot")

    def count(self, table: str) -> dict[str, int]:
        """Count the `rows` of a table, the `corrupt` ones and those `lost` before they were written."""
        row = self._other_rows(table).agg(F.count(F.lit(1)), F.coalesce(F.sum("rows_lost"), F.lit(0))).first()
        assert row is not None
        corrupt = self.telemetry.corrupt(table, self.since, self.until)
        found, lost = int(row[0]), int(row[1])
        if choice := self._choices.get(table):
            found, lost = found + choice.rows, lost + choice.lost
        return {"rows": found, "corrupt": corrupt, "lost": lost}

    def _none(self, dataset: str) -> DataFrame:
        return empty(self.telemetry.spark, STRUCT[dataset])

    def _other_rows(self, table: str) -> DataFrame:
        """Return the rows of the hours for which no summary answers."""
        choice = self._choices.get(table)
        return self.telemetry.rows(table, self.since, self.until, choice.covered if choice else frozenset())
