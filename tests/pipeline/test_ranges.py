"""Long ranges: what summaries answer is what rows answer, exactly or within the error that is stated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.telemetry.schema import TABLES
from pipeline import layout
from pipeline.inputs import inputs
from pipeline.jobs import hot_shards
from pipeline.jobs.marks import Goals
from pipeline.ranges import LONG_US, Range
from pipeline.read import Telemetry
from pipeline.report.answers import gather
from pipeline.report.contents import Report
from pipeline.report.page import page
from pipeline.summaries.distributions import ERROR
from pipeline.summaries.layout import QUEUE_HOURS
from tests.pipeline import live
from tests.pipeline.day import SINCE, Day
from tests.pipeline.tables import Row, same
from tests.pipeline.weeks import LAST, compacted, hour, written

BEGIN = SINCE + 5 * 60_000_000
"""Within the first hour: its rows answer, as those of the last one, which is not compacted."""
ROUNDED = {
    "marks": {"stop_count", "resume_count", "stop_bytes", "resume_bytes", "drain", "overshoot"},
    "rebalance_inputs": {"p50_rate", "p95_rate", "p50_bytes_rate", "p95_bytes_rate"},
}
"""Columns that are within the error; all others are the same."""


@pytest.fixture(scope="module")
def root(spark: SparkSession, day: Day, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Telemetry of more than a day with its summaries."""
    found = tmp_path_factory.mktemp("long")
    written(spark, found, day)
    return found


def report(spark: SparkSession, root: Path, *, exact: bool) -> Report:
    telemetry = Telemetry(spark, str(root))
    return gather(telemetry, BEGIN, LAST, Goals(), hot_shards.Limits(), lambda _: None, exact=exact)


def is_near(value: Any, other: Any) -> bool:
    if value is None or other is None:
        return value is other
    return math.isclose(value, other, rel_tol=ERROR, abs_tol=1)


def assert_answers(found: list[Row], expected: list[Row], rounded: set[str]) -> None:
    by_place = [
        sorted(rows, key=lambda row: repr([row[name] for name in row if name not in rounded]))
        for rows in (found, expected)
    ]
    assert len(found) == len(expected)
    for row, other in zip(*by_place, strict=True):
        wrong = {
            name: (row[name], other[name])
            for name in row
            if not (is_near if name in rounded else same)(row[name], other[name])
        }
        assert not wrong, f"found, expected: {wrong} in {row}"


@pytest.mark.slow
def test_a_report_on_summaries_is_that_on_rows(spark: SparkSession, root: Path) -> None:
    found, expected = report(spark, root, exact=False), report(spark, root, exact=True)
    assert found.counts == expected.counts
    assert found.curves == expected.curves
    for name in found.answers.keys() - {"what_if", "what_if_stops", "what_if_channels"}:
        assert_answers(found.rows(name), expected.rows(name), ROUNDED.get(name, set()))
    tried = {(row["node"], row["vhost"], row["queue"]) for row in found.rows("what_if")}
    for row in expected.rows("what_if"):
        if (row["node"], row["vhost"], row["queue"]) not in tried:
            assert (row["stops"], row["was_stopped_ms"]) == (0, 0), f"{row} is worth a replay"
    assert (found.is_summarized, expected.is_summarized) == (True, False)
    assert "--exact" in page(found)
    assert "--exact" not in page(expected)


def test_facts_of_queues_and_shards_are_those_of_rows(spark: SparkSession, root: Path) -> None:
    telemetry = Telemetry(spark, str(root))
    long, exact = Range(telemetry, BEGIN, LAST), Range(telemetry, BEGIN, LAST, exact=True)
    assert (long.is_summarized, exact.is_summarized) == (True, False)
    found, expected = (
        {row["queue"]: row.asDict(recursive=True) for row in span.queues().collect()} for span in (long, exact)
    )
    assert found.keys() == expected.keys()
    for queue, facts in expected.items():
        for name, value in facts.items():
            compare = is_near if name in ("drain", "net_p99") else same
            assert compare(found[queue][name], value), (queue, name, found[queue][name], value)
    loads = ([row.asDict() for row in span.load().collect()] for span in (long, exact))
    assert_answers(*loads, set())
    assert {name: long.count(name) for name in TABLES} == {name: exact.count(name) for name in TABLES}


def test_a_range_of_a_day_is_answered_from_rows(spark: SparkSession, root: Path) -> None:
    telemetry = Telemetry(spark, str(root))
    assert not Range(telemetry, LAST - LONG_US, LAST).is_summarized


def test_rows_of_a_few_queues_are_those_of_their_places(spark: SparkSession, root: Path, day: Day) -> None:
    span = Range(Telemetry(spark, str(root)), BEGIN, LAST)
    place = ("node-1", "/", "slow-0")
    found = span.depth_of([place, ("node-2", "/", "slow-1")])
    assert {(row["node"], row["vhost"], row["queue"]) for row in found.collect()} == {place}
    expected = span.rows("depth").where("queue = 'slow-0'").count()
    assert found.count() == expected > 0
    assert span.depth_of([]).count() == 0


def test_hours_without_a_row_that_fits_have_no_queues(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    live.write(tmp_path, "depth", [{**day.depth[0], "ready": "many"}])
    compacted(spark, tmp_path)
    span = Range(Telemetry(spark, str(tmp_path)), SINCE, LAST)
    assert span.is_summarized
    assert span.queues().count() == 0
    assert span.count("depth") == {"rows": 0, "corrupt": 1, "lost": 0}


def test_a_damaged_summary_is_left_out(spark: SparkSession, day: Day, tmp_path: Path) -> None:
    """The rows of its hour answer instead."""
    written(spark, tmp_path, day)
    directory = Path(layout.history_base(str(tmp_path), QUEUE_HOURS)) / hour(26).path
    (part,) = directory.glob("*.parquet")
    expected = inputs(Telemetry(spark, str(tmp_path)), BEGIN, LAST, lambda _: None)
    part.write_bytes(b"this is no Parquet at all")
    part.with_name(f".{part.name}.crc").unlink()
    reported: list[str] = []
    found = inputs(Telemetry(spark, str(tmp_path)), BEGIN, LAST, reported.append)
    assert found == expected
    assert [line for line in reported if part.name in line and "cannot be read" in line]


def test_a_summary_that_is_made_again_meanwhile_is_read_again(spark: SparkSession, root: Path) -> None:
    telemetry = Telemetry(spark, str(root))
    assert Range(telemetry, BEGIN, LAST).is_summarized
    assert not telemetry.relist()
    directory = Path(layout.history_base(str(root), QUEUE_HOURS)) / hour(1).path
    manifest = directory / layout.manifest_name(1)
    again = directory / layout.manifest_name(2)
    again.write_text(manifest.read_text().replace('"rows": ', '"rows": 1'))
    try:
        assert telemetry.relist()
    finally:
        again.unlink()
