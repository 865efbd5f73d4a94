"""The history on a file system where a rename is a copy and a deletion: each row once, wherever a run dies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.alerts.saved_board import SavedBoard
from pipeline.compact import compact, remove_live
from pipeline.errors import PipelineError
from pipeline.files import Files
from pipeline.inputs import inputs
from pipeline.layout import Hour, history_base
from pipeline.read import Telemetry, manifests
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day
from tests.pipeline.object_store import CLASS, SCHEME, ObjectStore, uri
from tests.pipeline.tables import Row
from tests.pipeline.test_command import run as run_command

HOUR = Hour.of(SINCE)
IN_PLACE = r"v=1/dt=[^/]*/hour=\d*/part-"
STAGED = r"_staging-[^/]*/dt=[^/]*/hour=\d*/part-"
NEW, LATE, LATER = slice(0, 200), slice(200, 250), slice(250, 260)
"""Rows of depth in the order in which they come."""


@pytest.fixture(scope="module")
def store(spark: SparkSession) -> ObjectStore:
    return ObjectStore(spark)


@pytest.fixture
def alive(store: ObjectStore) -> Iterator[ObjectStore]:
    """The store, as others expect it at the end."""
    yield store
    store.revive()


@pytest.fixture(scope="module")
def compacted(spark: SparkSession, store: ObjectStore, day: Day, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose first rows are in the history, and the next ones are late."""
    root = tmp_path_factory.mktemp("compacted")
    live.write(root, "depth", day.depth[NEW])
    run(spark, root)
    live.write(root, "depth", day.depth[LATE], "late")
    return root


def run(spark: SparkSession, root: Path, tables: tuple[str, ...] = ("depth",)) -> None:
    assert list(compact(spark, uri(root), HOUR.ends, 0, tables))


def rows(spark: SparkSession, root: Path, day: Day, table: str = "depth") -> list[Row]:
    found = Telemetry(spark, uri(root)).rows(table, day.since, day.until).collect()
    return in_order([row.asDict() for row in found])


def in_order(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row["writer"], row["seq"]))


def files_of(root: Path) -> set[str]:
    """Return the files and directories of the history, relative to its hour, where there are no others."""
    base = Path(history_base(str(root), "depth"))
    return {str(path.relative_to(base / HOUR.path)) for path in base.rglob("*") if not path.is_dir()}


def test_a_day_is_compacted_and_compacted_again_and_read_as_it_was(
    spark: SparkSession, store: ObjectStore, day: Day, tmp_path: Path
) -> None:
    live.write_day(tmp_path, day)
    (late,) = live.write(tmp_path, "depth", day.depth[NEW], "late")
    aside = late.rename(tmp_path / "aside")
    before = inputs(Telemetry(spark, str(tmp_path)), day.since, day.until, print)
    run(spark, tmp_path, ("depth", "flow"))
    aside.rename(late)
    run(spark, tmp_path, ("depth",))
    for table in ("depth", "flow"):
        assert rows(spark, tmp_path, day, table) == in_order(getattr(day, table))
    assert remove_live(Files(spark), uri(tmp_path), HOUR.ends, 0, ("depth",)) == 4
    assert json.loads(inputs(Telemetry(spark, uri(tmp_path)), day.since, day.until, print)) == json.loads(before)


@pytest.mark.parametrize(("step", "path"), [("put", IN_PLACE), ("put", "_manifest-")])
def test_a_first_compaction_that_dies_does_no_harm(
    spark: SparkSession, alive: ObjectStore, day: Day, tmp_path: Path, step: str, path: str
) -> None:
    live.write(tmp_path, "depth", day.depth[NEW])
    alive.die_at(step, path)
    dies_and_another_run_does_well(spark, alive, day, tmp_path, day.depth[NEW])


@pytest.mark.parametrize(
    ("step", "path"),
    [
        pytest.param("put", "_staging-.*parquet", id="writing"),
        pytest.param("copy", "_staging-.*parquet", id="Spark's rename half done"),
        pytest.param("copy", IN_PLACE, id="move half done"),
        pytest.param("remove", STAGED, id="move before its deletion"),
        pytest.param("put", "_manifest-", id="manifest torn"),
        pytest.param("delete", IN_PLACE, id="before the sweep"),
        pytest.param("delete", "_manifest-", id="sweep half done"),
        pytest.param("delete", "_staging-", id="before the clean-up"),
    ],
)
def test_a_compaction_of_late_files_that_dies_does_no_harm(
    spark: SparkSession, alive: ObjectStore, day: Day, compacted: Path, tmp_path: Path, step: str, path: str
) -> None:
    shutil.copytree(compacted, tmp_path, dirs_exist_ok=True)
    alive.die_at(step, path)
    dies_and_another_run_does_well(spark, alive, day, tmp_path, day.depth[NEW] + day.depth[LATE])


def dies_and_another_run_does_well(
    spark: SparkSession, store: ObjectStore, day: Day, root: Path, present: list[Row]
) -> None:
    """Let a run die, remove the live files that count, add others, and compact; rows are right at each point."""
    with pytest.raises(PipelineError, match="the process died"):
        run(spark, root)
    assert rows(spark, root, day) == in_order(present)
    assert store.revive()
    remove_live(Files(spark), uri(root), HOUR.ends, 0, ("depth",))
    assert rows(spark, root, day) == in_order(present)
    live.write(root, "depth", day.depth[LATER], "later")
    run(spark, root)
    assert rows(spark, root, day) == in_order(present + day.depth[LATER])
    (manifest,) = manifests(Files(spark), uri(root), "depth").values()
    (name,) = files_of(root).difference(manifest.parts)
    assert name.startswith("_manifest-")


def test_files_that_cannot_be_read_are_counted(
    spark: SparkSession, store: ObjectStore, day: Day, compacted: Path, tmp_path: Path
) -> None:
    """Their paths, as listed, differ from the URI of the root as given: `store:/` from `store:///`."""
    shutil.copytree(compacted, tmp_path, dirs_exist_ok=True)
    (path,) = live.write(tmp_path, "depth", day.depth[LATER], "later")
    path.write_bytes(b"this is no zstd at all")
    telemetry = Telemetry(spark, uri(tmp_path))
    report: list[str] = []
    inputs(telemetry, day.since, day.until, report.append)
    assert telemetry.unreadable("depth", day.since, day.until) == [path.name]
    assert len(report) == 1


def test_the_board_of_alerts_outlives_a_torn_state(spark: SparkSession, alive: ObjectStore, tmp_path: Path) -> None:
    saved = SavedBoard(Files(spark), uri(tmp_path))
    saved.write('{"state": 1}')
    alive.die_at("put", "board-")
    with pytest.raises(PipelineError, match="the process died"):
        saved.write('{"state": 2}')
    assert alive.revive()
    saved = SavedBoard(Files(spark), uri(tmp_path))
    assert saved.read() == '{"state": 1}'
    saved.write('{"state": 3}')
    assert [path.name for path in tmp_path.iterdir()] == ["board-000000003.json"]


@pytest.mark.slow
def test_the_commands_accept_its_uris(store: ObjectStore, day: Day, tmp_path: Path) -> None:
    """They are given the class of the file system as the jar of another would be."""
    year_us = 365 * 86_400_000_000  # the commands compact hours that are over by the machine's clock
    rows = [{**row, "ts": row["ts"] - year_us} for row in day.depth]
    live.write(tmp_path / "telemetry", "depth", rows)
    store.write_classes(tmp_path / "classes")
    arguments = ["--telemetry", uri(tmp_path / "telemetry"), "--conf", f"spark.hadoop.fs.{SCHEME}.impl={CLASS}"]
    arguments += ["--conf", f"spark.driver.extraClassPath={tmp_path / 'classes'}", "--master", "local[1]"]
    done = run_command("compact", "--keep-live", "1h", *arguments)
    assert done.returncode == 0 and "1 live files removed" in done.stderr, done.stderr
    times = ["--from", "2025-11-20T11:00", "--to", "2025-11-20T11:20"]
    done = run_command("inputs", "--output", "-", *times, *arguments)
    assert done.returncode == 0, done.stderr
    assert {row["queue"] for row in json.loads(done.stdout)["queues"]} == {row["queue"] for row in rows}
