"""The example that writes Delta tables: with Parquet in place of Delta, with its jar, and without."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from pipeline.examples import delta
from pipeline.jobs import episodes
from pipeline.layout import Hour
from pipeline.read import Telemetry
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import assert_same

ROOT = Path(__file__).resolve().parents[3]
DAY = date.fromisoformat(Hour.of(SINCE).dt)
JARS = os.environ.get("DELTA_JARS", "")


def test_a_second_run_replaces_the_rows_of_its_day_only(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path / "telemetry", day)
    found = delta.answers(Telemetry(spark, f"{tmp_path}/telemetry"), DAY)
    for each in (DAY, DAY + timedelta(days=1), DAY):
        delta.write(found, each, str(tmp_path), "parquet")
    end = Hour(str(DAY + timedelta(days=1)), 0).begins
    for each in (DAY, DAY + timedelta(days=1)):
        rows = spark.read.parquet(f"{tmp_path}/episodes").where(f"dt = '{each}'").drop("dt")
        assert_same(rows, episodes.TABLE, plain_episodes(day.flow, end), in_order=False)
    written = spark.read.parquet(f"{tmp_path}/rebalance_inputs")
    assert {row["queue"] for row in written.collect()} == {row["queue"] for row in day.depth}


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.programs", "pipeline.examples.delta", "--telemetry", f"{root}/telemetry",
         "--tables", str(root), "--day", str(DAY), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_without_the_jar_it_ends_with_one_line(tmp_path: Path) -> None:
    done = run(tmp_path)
    minor = ".".join(pyspark.__version__.split(".")[:2])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"delta: Spark {pyspark.__version__} has no jar of Delta: "
        f"add --packages io.delta:delta-spark_{minor}_2.13:VERSION, or --jars FILE"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(not JARS, reason="DELTA_JARS names no jars of Delta")
def test_with_the_jar_it_writes_delta_tables(day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path / "telemetry", day)
    done = run(tmp_path, "--jars", JARS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "episodes" / "_delta_log").is_dir()
    assert pq.read_table(tmp_path / "episodes").num_rows == len(plain_episodes(day.flow, Hour.of(SINCE).ends))
