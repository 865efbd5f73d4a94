"""Files that cannot be read cost a line each, in both tiers; parts that a compaction replaced are looked up again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline.compact import compact
from pipeline.errors import PipelineError
from pipeline.layout import Hour
from pipeline.read import Telemetry
from pipeline.recovery import on_readable_files
from pipeline.runner import Runner
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day
from tests.pipeline.tables import Row

GRACE = 600_000_000
CLOSED = Hour.of(SINCE).ends + GRACE


def compact_depth(spark: SparkSession, root: Path) -> None:
    assert list(compact(spark, str(root), CLOSED, GRACE, ("depth",)))


def by_seq(found: DataFrame) -> list[Row]:
    return sorted((row.asDict() for row in found.collect()), key=lambda row: row["seq"])


def test_unreadable_files_of_both_tiers_are_left_out_counted_and_named(
    spark: SparkSession, day: Day, tmp_path: Path
) -> None:
    rows = [day.depth[number::3] for number in range(3)]
    live.write(tmp_path, "depth", rows[0], "one")
    compact_depth(spark, tmp_path)
    (part,) = tmp_path.glob("history/depth/**/part-*.parquet")
    part.write_bytes(part.read_bytes()[:100])
    live.write(tmp_path, "depth", rows[1], "two")
    (path,) = live.write(tmp_path, "depth", rows[2], "three")
    path.write_bytes(b"this is no zstd at all")
    telemetry, reported = Telemetry(spark, str(tmp_path)), list[str]()
    with Runner(spark) as runner:
        read = partial(telemetry.rows, "depth", day.since, day.until)
        found = on_readable_files(telemetry, runner, lambda: by_seq(read()), reported.append)
    assert found == rows[1]
    assert telemetry.unreadable("depth", day.since, day.until) == sorted((part.name, path.name))
    assert telemetry.unreadable("flow", day.since, day.until) == []
    assert {line.rpartition("/")[2] for line in reported} == {
        f"{each.name} cannot be read, and is left out" for each in (part, path)
    }


def test_parts_that_a_compaction_replaced_are_looked_up_again(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth[:-50])
    compact_depth(spark, tmp_path)
    telemetry, reported, frames = Telemetry(spark, str(tmp_path)), list[str](), list[DataFrame]()

    def job() -> list[Row]:
        frames.append(telemetry.rows("depth", day.since, day.until))
        if len(frames) == 1:  # after the files were listed, and before they are read
            live.write(tmp_path, "depth", day.depth[-50:], "late")
            compact_depth(spark, tmp_path)
        return by_seq(frames[-1])

    with Runner(spark) as runner:
        assert on_readable_files(telemetry, runner, job, reported.append) == by_seq(frames[-1])
    assert len(by_seq(frames[-1])) == len(day.depth)
    assert reported == ["hours were compacted meanwhile: once more"]
    assert telemetry.unreadable("depth", day.since, day.until) == []


def test_another_failure_is_one_line(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth[:10])
    telemetry = Telemetry(spark, str(tmp_path))

    def job() -> None:
        telemetry.rows("depth", day.since, day.until).selectExpr("raise_error('no luck')").collect()

    with Runner(spark) as runner, pytest.raises(PipelineError) as failed:
        on_readable_files(telemetry, runner, job, print)
    assert "no luck" in str(failed.value)
    assert "\n" not in str(failed.value)
