"""The report's jobs: frames that several use are computed first, and a bad file costs no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.jobs import consumers, hot_shards
from pipeline.jobs.marks import Goals
from pipeline.read import Telemetry
from pipeline.report.answers import gather, keep
from pipeline.report.page import page
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.jobs.test_consumers import plain_consumers
from tests.pipeline.tables import same


def is_computed(spark: SparkSession, frame: Any) -> bool:
    """Whether Spark has computed a kept frame, so that no job has to."""
    session: Any = spark._jsparkSession
    cached = session.sharedState().cacheManager().lookupCachedData(frame._jdf)
    return bool(cached.isDefined() and cached.get().cachedRepresentation().cacheBuilder().isCachedColumnBuffersLoaded())


def test_a_kept_frame_is_computed_at_once(spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr("id * 2 as twice")
    frame.persist()
    assert not is_computed(spark, frame)
    frame.unpersist()
    keep(frame)
    try:
        assert is_computed(spark, frame)
    finally:
        frame.unpersist()


@pytest.mark.slow
def test_a_bad_file_costs_no_answer(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path, day)
    for table in ("depth", "flow"):
        (path, *_) = tmp_path.glob(f"{table}/**/*.zst")
        live.add(path, b"this is no zstd at all")
    reported: list[str] = []
    telemetry = Telemetry(spark, str(tmp_path))
    report = gather(telemetry, day.since, day.until, Goals(), hot_shards.Limits(), reported.append)
    assert {name: len(files) for name, files in report.unreadable.items() if files} == {"depth": 1, "flow": 1}
    assert sum("cannot be read" in line for line in reported) == 2
    found, expected = report.answers["consumers"].rows, plain_consumers(day.depth, consumers.Limits())
    assert len(found) == len(expected)
    assert all(same(row[name], other[name]) for row, other in zip(found, expected, strict=True) for name in row)
    assert report.unreadable["flow"][0] in page(report)
