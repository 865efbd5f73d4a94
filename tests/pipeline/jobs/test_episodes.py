"""Flow episodes against a plain computation."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.telemetry.schema import FLOW
from pipeline.jobs import episodes
from tests.pipeline.day import Day
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import assert_same, frame, rows_of


def test_every_stop_is_one_episode(spark: SparkSession, day: Day) -> None:
    found = episodes.episodes(frame(spark, FLOW, day.flow), day.until)
    expected = plain_episodes(day.flow, day.until)
    assert_same(found, episodes.TABLE, expected, in_order=False)
    assert {row["outcome"] for row in expected} == {"free", "closed", "open", "lost"}
    assert len(expected) == sum(row["action"] == "stop" for row in day.flow)


def test_a_resume_whose_stop_was_before_the_range_is_an_episode(spark: SparkSession, day: Day) -> None:
    (first, *_) = [row for row in day.flow if row["action"] == "resume"]
    (found,) = rows_of(episodes.episodes(frame(spark, FLOW, [first]), day.until))
    assert found["started"] == first["ts"] - first["stopped_ms"] * 1000
    assert found["ended"] == first["ts"]


def test_without_rows_there_are_none(spark: SparkSession, day: Day) -> None:
    assert_same(episodes.episodes(frame(spark, FLOW, []), day.until), episodes.TABLE, [])
