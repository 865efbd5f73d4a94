"""The whole report on a real standalone cluster, two workers on loopback, one of which is killed in mid-query."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from load.spark_cluster import cluster
from pipeline.jobs import consumers, episodes, rebalance_inputs
from pipeline.jobs.consumers import Limits
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.jobs.test_consumers import plain_consumers
from tests.pipeline.jobs.test_rebalance_inputs import plain_rebalance_inputs
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import Row, same
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
TIMES = ("--from", "2026-11-20T11:00", "--to", "2026-11-20T11:20")


def report(root: Path, output: Path, log: IO[bytes], *options: str) -> subprocess.Popen[bytes]:
    command = ("-m", "pipeline", "report", "--telemetry", str(root), *TIMES, "--json", str(output), *options)
    return subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=log)


def answer(results: dict[str, Any], name: str) -> list[Row]:
    assert not results["answers"][name]["more"]
    rows: list[Row] = results["answers"][name]["rows"]
    return rows


def assert_rows(found: list[Row], expected: list[Row]) -> None:
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert all(same(value, other[name]) for name, value in row.items()), (row, other)


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is missing")
def test_a_worker_that_dies_changes_no_answer(day: Day, tmp_path: Path) -> None:
    root, output, log_file = tmp_path / "telemetry", tmp_path / "report.json", tmp_path / "report.log"
    live.write_day(root, day)
    # The executors must get penstock's modules from the driver: they have no path to its packages.
    with cluster(tmp_path, workers=2) as (url, workers), log_file.open("wb") as log:
        memory = ("spark.executor.memory=512m", "spark.driver.memory=1g", "spark.driver.host=127.0.0.1")
        options = [part for pair in memory for part in ("--conf", pair)]
        running = report(root, output, log, "--master", url, *options)
        try:

            def at_work() -> bool:
                assert running.poll() is None, log_file.read_text()
                return "3 of " in log_file.read_text()

            wait_for(at_work, PATIENCE * 2, "a report that is at work")
            assert len(workers[1].family()) > 1, "it has no executor"
            workers[1].kill()
            assert running.wait(timeout=600) == 0, log_file.read_text()
        finally:
            running.kill()
            running.wait()
    results = json.loads(output.read_text())
    assert_rows(answer(results, consumers.TABLE.name), plain_consumers(day.depth, Limits()))
    assert_rows(answer(results, rebalance_inputs.TABLE.name), plain_rebalance_inputs(day.depth, day.since, day.until))

    def place(row: Row) -> tuple[int, int, str, int]:
        return -row["stopped_ms"], row["started"], row["connection"], row["channel"]

    assert_rows(answer(results, episodes.TABLE.name), sorted(plain_episodes(day.flow, day.until), key=place))
    assert answer(results, "what_if")
