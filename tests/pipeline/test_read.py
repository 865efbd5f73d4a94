"""Rows of a range of time from the live tier. With the history, and both at once: test_compact.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import layout
from pipeline.files import Files
from pipeline.layout import Hour, Manifest
from pipeline.manifests import commit
from pipeline.read import Telemetry, live_files, manifests
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


def test_only_the_days_that_are_asked_for_are_listed_and_their_manifests_read(
    spark: SparkSession, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = Files(spark), str(tmp_path)
    days = [Hour("2026-11-19", 23), Hour("2026-11-20", 0), Hour("2026-11-20", 23), Hour("2026-11-21", 0)]
    for hour in days:
        live.write(tmp_path, "depth", [{**day.depth[0], "ts": hour.begins}])
        directory = f"{layout.history_base(root, 'depth')}/{hour.path}"
        commit(files, directory, 1, Manifest((), (), hour.hour, 0, 0))
    opened = list[str]()
    read = Files.read

    def noted(files: Files, name: str) -> str | None:
        opened.append(name)
        return read(files, name)

    monkeypatch.setattr(Files, "read", noted)
    span = days[1].begins, days[2].ends
    assert list(manifests(files, root, "depth", span)) == list(live_files(files, root, "depth", span)) == days[1:3]
    assert len(opened) == 2
    assert list(manifests(files, root, "depth", layout.span([]))) == []
    assert len(live_files(files, root, "depth")) == len(manifests(files, root, "depth")) == 4
