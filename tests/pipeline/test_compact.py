"""Hourly compaction and reading across both tiers: each row once, in whatever order files came, however a run ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

from penstock.telemetry.schema import TABLES
from pipeline import compact as compacting
from pipeline import layout
from pipeline.compact import Compacted, Pending, Staged, compact, remove_live
from pipeline.errors import PipelineError
from pipeline.files import Files
from pipeline.layout import HOUR_US, MANIFEST_0, NOTHING, Hour, manifest_name
from pipeline.read import Telemetry, live_files, manifests
from pipeline.schema import arrow
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day
from tests.pipeline.tables import Row

HOUR = Hour.of(SINCE)
GRACE = 600_000_000
CLOSED = HOUR.ends + GRACE


def run(spark: SparkSession, root: Path, now: int = CLOSED, tables: tuple[str, ...] = ("depth",)) -> list[Compacted]:
    return list(compact(spark, str(root), now, GRACE, tables))


def read(spark: SparkSession, root: Path, day: Day, table: str = "depth") -> list[Row]:
    found = Telemetry(spark, str(root)).rows(table, day.since, day.until).collect()
    return sorted((row.asDict() for row in found), key=lambda row: (row["writer"], row["seq"]))


def expected(day: Day, table: str = "depth") -> list[Row]:
    return sorted(getattr(day, table), key=lambda row: (row["writer"], row["seq"]))


def history(root: Path, table: str = "depth") -> Path:
    return Path(layout.history_base(str(root), table)) / HOUR.path


def parts(root: Path) -> list[Path]:
    return sorted(history(root).glob("*.parquet"))


def test_every_table_is_compacted_and_read_as_before(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path, day, files=2)
    before = read(spark, tmp_path, day)
    assert run(spark, tmp_path, CLOSED - 1, tuple(TABLES)) == []
    done = run(spark, tmp_path, CLOSED, tuple(TABLES))
    assert {each.table: each.manifest.rows for each in done} == {
        table: len(getattr(day, table)) for table in TABLES if getattr(day, table)
    }
    for table in TABLES:
        assert read(spark, tmp_path, day, table) == expected(day, table)
    assert before == expected(day)
    written = pq.read_table(parts(tmp_path)[0])
    assert written.schema.names == arrow(TABLES["depth"]).names
    keys = list(zip(*(written.column(name).to_pylist() for name in ("vhost", "queue", "ts")), strict=True))
    assert keys == sorted(keys)


def test_rows_of_before_a_column_was_added_are_read_beside_later_ones(
    spark: SparkSession, day: Day, tmp_path: Path
) -> None:
    """They are read from live files, from a history whose parts lack the column too, and from hours with both."""
    old, new = day.depth[:-50], day.depth[-50:]
    without = [{name: value for name, value in row.items() if name != "whole_bytes"} for row in old]
    same = sorted([*({**row, "whole_bytes": None} for row in old), *new], key=lambda row: (row["writer"], row["seq"]))
    live.write(tmp_path, "depth", without)
    run(spark, tmp_path)
    for part in parts(tmp_path):  # as an earlier release made it
        part.with_name(f".{part.name}.crc").unlink()
        pq.write_table(pq.read_table(part).drop_columns("whole_bytes"), part)
    live.write(tmp_path, "depth", new, "later")
    assert read(spark, tmp_path, day) == same
    (done,) = run(spark, tmp_path)
    assert (done.manifest.rows, done.manifest.corrupt) == (len(day.depth), 0)
    assert read(spark, tmp_path, day) == same


def test_twice_is_once(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path, day)
    run(spark, tmp_path)
    before = [path.read_bytes() for path in parts(tmp_path)]
    assert run(spark, tmp_path) == []
    assert [path.read_bytes() for path in parts(tmp_path)] == before


def test_a_late_file_is_read_at_once_and_opens_its_hour_again(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth[:-50])
    run(spark, tmp_path)
    live.write(tmp_path, "depth", day.depth[-60:], "late")  # ten of them are there already
    assert len(read(spark, tmp_path, day)) == len(day.depth) + 10
    (done,) = run(spark, tmp_path)
    assert (done.files, done.manifest.rows, done.manifest.duplicates) == (1, len(day.depth), 10)
    assert read(spark, tmp_path, day) == expected(day)
    assert run(spark, tmp_path) == []


def test_live_files_that_are_compacted_may_go(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write_day(tmp_path, day)
    run(spark, tmp_path)
    live.write(tmp_path, "depth", day.depth[:10], "late")
    files = Files(spark)
    assert remove_live(files, str(tmp_path), HOUR.ends + 9, 10, ("depth",)) == 0
    assert remove_live(files, str(tmp_path), HOUR.ends + 10, 10, ("depth",)) == 3
    assert len(read(spark, tmp_path, day)) == len(day.depth) + 10
    run(spark, tmp_path)
    assert read(spark, tmp_path, day) == expected(day)


def test_corrupt_rows_are_counted_and_left_out(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    (path,) = live.write(tmp_path, "depth", day.depth)
    wrong = live.lines([{**day.depth[0], "ready": "many"}, {**day.depth[1], "ts": 1.5}])
    live.add(path, zstandard.compress(wrong + live.lines(day.depth[:1])[:40]))
    telemetry = Telemetry(spark, str(tmp_path))
    assert telemetry.corrupt("depth", day.since, day.until) == 3
    assert read(spark, tmp_path, day) == expected(day)
    (done,) = run(spark, tmp_path)
    assert (done.manifest.corrupt, done.manifest.rows) == (3, len(day.depth))
    assert Telemetry(spark, str(tmp_path)).corrupt("depth", day.since, day.until) == 3


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_file_that_cannot_be_read_costs_no_other(spark: SparkSession, day: Day, tmp_path: Path, damage: str) -> None:
    live.write(tmp_path, "depth", day.depth[::2], "one")
    (path,) = live.write(tmp_path, "depth", day.depth[1::2], "two")
    live.add(path, path.read_bytes()[:-20] if damage == "cut" else b"this is no zstd at all")
    (done,) = run(spark, tmp_path)
    assert len(done.manifest.unreadable) + done.manifest.corrupt == 1  # the whole frames of a cut file are read
    assert done.manifest.rows == len(day.depth)
    assert read(spark, tmp_path, day) == expected(day)
    assert run(spark, tmp_path) == []


def test_a_run_that_dies_leaves_the_hour_as_it_was(
    spark: SparkSession, day: Day, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.write(tmp_path, "depth", day.depth[:-50])
    run(spark, tmp_path)
    live.write(tmp_path, "depth", day.depth[-50:], "late")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Files, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            run(spark, tmp_path)
    assert read(spark, tmp_path, day) == expected(day)
    with monkeypatch.context() as patched:
        patched.setattr(compacting, "sweep", killed)
        with pytest.raises(KeyboardInterrupt):
            run(spark, tmp_path)
    assert read(spark, tmp_path, day) == expected(day)
    assert len(parts(tmp_path)) == 3  # one of each run
    assert run(spark, tmp_path) == []  # the hour is done, but for its sweep
    assert read(spark, tmp_path, day) == expected(day)
    (manifest,) = manifests(Files(spark), str(tmp_path), "depth").values()
    assert [path.name for path in parts(tmp_path)] == list(manifest.parts)
    assert {path.name for path in history(tmp_path).glob("[!.]*")} == {manifest_name(2), *manifest.parts}


def test_an_hour_whose_manifest_is_torn_is_made_again(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth)
    run(spark, tmp_path)
    (history(tmp_path) / manifest_name(1)).write_text('{"parts": [')
    assert remove_live(Files(spark), str(tmp_path), HOUR.ends + 10, 10, ("depth",)) == 0
    assert read(spark, tmp_path, day) == expected(day)
    assert len(run(spark, tmp_path)) == 1
    assert read(spark, tmp_path, day) == expected(day)
    assert len(parts(tmp_path)) == 1


def test_a_history_of_an_earlier_release_is_read_and_continued(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth[:-50])
    run(spark, tmp_path)
    (history(tmp_path) / manifest_name(1)).rename(history(tmp_path) / MANIFEST_0)
    (history(tmp_path) / f".{manifest_name(1)}.crc").rename(history(tmp_path) / f".{MANIFEST_0}.crc")
    assert run(spark, tmp_path) == []
    live.write(tmp_path, "depth", day.depth[-50:], "late")
    assert read(spark, tmp_path, day) == expected(day)
    assert len(run(spark, tmp_path)) == 1
    assert read(spark, tmp_path, day) == expected(day)
    assert not (history(tmp_path) / MANIFEST_0).exists()


def test_of_two_runs_at_once_one_counts(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    """The other fails, although each has written its parts when the first commits."""
    files, root = Files(spark), str(tmp_path)
    live.write(tmp_path, "depth", day.depth)
    (found,) = compacting.pending(files, live_files(files, root, "depth"), {}, CLOSED, GRACE)
    runs = {run: compacting._write_by_arrow(spark, root, TABLES["depth"], [found], run) for run in ("first", "other")}
    for run_name, staged in runs.items():
        assert staged
        if run_name == "first":
            compacting._put_in_place(files, root, "depth", found, staged, run_name)
        else:
            with pytest.raises(PipelineError, match=manifest_name(1)):
                compacting._put_in_place(files, root, "depth", found, staged, run_name)
    assert read(spark, tmp_path, day) == expected(day)


def hours_of(day: Day, count: int) -> list[list[Row]]:
    """Return the day's rows of depth once for each of `count` hours, with numbers that continue."""
    last = max(row["seq"] for row in day.depth)
    return [
        [{**row, "ts": row["ts"] + number * HOUR_US, "seq": row["seq"] + number * last} for row in day.depth]
        for number in range(count)
    ]


def all_rows(spark: SparkSession, root: Path, count: int) -> list[Row]:
    found = Telemetry(spark, str(root)).rows("depth", HOUR.begins, HOUR.begins + count * HOUR_US).collect()
    return sorted((row.asDict() for row in found), key=lambda row: row["seq"])


@pytest.mark.parametrize("wrong", [0, 3])
def test_hours_taken_in_together_are_as_each_alone(
    spark: SparkSession, day: Day, tmp_path: Path, wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if one of the hours has rows that are duplicates or do not fit."""
    hours = hours_of(day, 3)
    for rows in hours:
        live.write(tmp_path, "depth", rows)
    if wrong:
        live.write(tmp_path, "depth", [*hours[1][:wrong], {**hours[1][0], "ready": "many"}], "again")
    ways = []
    by_arrow, by_spark = compacting._write_by_arrow, compacting._stage_by_spark

    def arrow_seen(*arguments: Any) -> Staged | None:
        ways.append("arrow")
        return by_arrow(*arguments)

    def spark_seen(*arguments: Any) -> tuple[int, int]:
        ways.append("spark")
        return by_spark(*arguments)

    monkeypatch.setattr(compacting, "_write_by_arrow", arrow_seen)
    monkeypatch.setattr(compacting, "_stage_by_spark", spark_seen)
    done = run(spark, tmp_path, CLOSED + 2 * HOUR_US)
    assert [(each.hour.hour, each.files, each.manifest.rows) for each in done] == [
        (HOUR.hour + number, 1 + (wrong > 0 and number == 1), len(rows)) for number, rows in enumerate(hours)
    ]
    assert [each.manifest.duplicates for each in done] == [0, wrong, 0]
    assert [each.manifest.corrupt for each in done] == [0, int(wrong > 0), 0]
    assert ways == (["arrow", "arrow", "arrow", "spark", "arrow"] if wrong else ["arrow"])
    assert all_rows(spark, tmp_path, 3) == sorted((row for rows in hours for row in rows), key=lambda row: row["seq"])
    for number, each in enumerate(done):
        names = {path.name for path in (history(tmp_path).parent / f"hour={HOUR.hour + number}").glob("*.parquet")}
        assert names == set(each.manifest.parts)
    assert not list(history(tmp_path).parents[1].glob("_staging-*"))


def test_what_a_dead_run_wrote_aside_goes(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", day.depth)
    left = history(tmp_path).parents[1] / "_staging-dead" / HOUR.path
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(b"half of it")
    run(spark, tmp_path)
    assert read(spark, tmp_path, day) == expected(day)
    assert not left.parents[1].exists()


def test_lots_are_of_hours_in_order_and_bounded() -> None:
    most = compacting.ROWS_AT_ONCE
    sizes = [most // 2, most // 2, 1, most * 3, most, 5, 6]
    hours = [Pending(Hour("2026-11-20", number), ["file"], NOTHING, rows) for number, rows in enumerate(sizes)]
    found = list(compacting.lots(hours))
    assert [[each.rows for each in lot] for lot in found] == [[most // 2] * 2, [1], [most * 3], [most], [5, 6]]
    assert [each for lot in found for each in lot] == hours
