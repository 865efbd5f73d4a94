"""Rows of a range of time from the live tier. With the history, and both at once: test_compact.py."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.layout import Hour
from pipeline.read import Telemetry
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day

HOUR = Hour.of(SINCE)


def test_only_what_is_asked_for_is_read(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path, day)
    since, until = day.since + 100_000_000, day.since + 200_000_000
    found = Telemetry(spark, str(tmp_path)).rows("depth", since, until).count()
    assert found == sum(since <= row["ts"] < until for row in day.depth) > 0
    assert Telemetry(spark, str(tmp_path)).rows("depth", HOUR.ends, HOUR.ends + 1).count() == 0
    assert Telemetry(spark, str(tmp_path / "nowhere")).rows("depth", since, until).count() == 0
