"""Telemetry of more than a day, of a few hours with rows, and its summaries."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.telemetry.schema import TABLES
from pipeline.compact import compact
from pipeline.layout import HOUR_US, Hour
from pipeline.summarize import Made, summarize
from tests.pipeline import live
from tests.pipeline.day import SINCE, UNTIL, Day
from tests.pipeline.tables import Row

HOURS = (0, 1, 12, 13, 26, 27)
"""Hours with rows, from `SINCE` on; the last one is not over yet."""
GRACE = 600_000_000
NOW = SINCE + HOURS[-1] * HOUR_US + GRACE
LAST = UNTIL + HOURS[-1] * HOUR_US
"""When the last rows end."""


def long(day: Day) -> Day:
    """Return the rows of a day in each of the hours."""
    found = Day(until=LAST)
    for hour in HOURS:
        for table in TABLES:
            rows: list[Row] = getattr(found, table)
            rows += (
                {**row, "ts": row["ts"] + hour * HOUR_US, "seq": row["seq"] + hour * 10**6}
                for row in getattr(day, table)
            )
    return found


def written(spark: SparkSession, root: Path, day: Day) -> list[Made]:
    """Write the rows, compact the hours that are over, and return the summaries made of them."""
    live.write_day(root, long(day), files=1)
    return compacted(spark, root)


def compacted(spark: SparkSession, root: Path, now: int = NOW) -> list[Made]:
    """Compact, and return the summaries made."""
    for _ in compact(spark, str(root), now, GRACE):
        pass
    made = list(summarize(spark, str(root), now, GRACE))
    assert all(isinstance(each, Made) for each in made), made
    return [each for each in made if isinstance(each, Made)]


def hour(number: int) -> Hour:
    """Return an hour by its number from `SINCE` on."""
    return Hour.of(SINCE + number * HOUR_US)
