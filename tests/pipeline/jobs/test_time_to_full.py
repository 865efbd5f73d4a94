"""Time to full against a plain computation, with least squares by the book."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import time_to_full
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place, nbytes
from tests.pipeline.tables import Row, assert_same, frame, rows_of


def line(points: list[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Return slope and R² of a line through points; None where there is none."""
    n = len(points)
    mean_x, mean_y = (sum(point[axis] for point in points) / n for axis in (0, 1))
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    yy = sum((y - mean_y) ** 2 for _, y in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    if n < 2 or xx == 0:
        return None, None
    return xy / xx, 1.0 if yy == 0 else xy * xy / xx / yy


def plain_time_to_full(depth: list[Row], at: int, window: int, least: int) -> list[Row]:
    recent = [row for row in depth if at - window <= row["ts"] < at]
    results = []
    for (node, vhost, queue), rows in by_place(recent).items():
        last, found = rows[-1], {}
        for mark, of in (("count", backlog), ("bytes", nbytes)):
            slope, fit = line([((row["ts"] - at) / 1e6, of(row)) for row in rows])
            stop, seconds = last[f"stop_{mark}"], None
            if stop and of(last) >= stop:
                seconds = 0.0
            elif stop and slope is not None and slope > 0 and len(rows) >= least:
                seconds = (stop - of(last)) / slope
            found[mark] = (seconds, slope, fit)
        known = [(found[mark][0], mark) for mark in ("count", "bytes") if found[mark][0] is not None]
        if known:
            seconds, mark = min(known, key=lambda pair: pair[0])
            results.append(
                {
                    **{name: last[name] for name in ("shard", "stop_count", "stop_bytes")},
                    "node": node,
                    "vhost": vhost,
                    "queue": queue,
                    "depth": backlog(last),
                    "depth_bytes": nbytes(last),
                    "growth": found["count"][1],
                    "growth_bytes": found["bytes"][1],
                    "seconds": seconds,
                    "full_by": mark,
                    "fit": found[mark][2] if seconds else None,
                    "samples": len(rows),
                }
            )
    return sorted(results, key=lambda row: (row["seconds"], row["node"], row["vhost"], row["queue"]))


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_when_queues_are_full(spark: SparkSession, day: Day, share: float) -> None:
    at = day.since + int((day.until - day.since) * share)
    expected = plain_time_to_full(day.depth, at, time_to_full.WINDOW_US, time_to_full.SAMPLES_LEAST)
    assert_same(time_to_full.time_to_full(frame(spark, DEPTH, day.depth), at), time_to_full.TABLE, expected)
    assert any(row["seconds"] == 0 for row in expected) or share < 0.5
    assert any(row["seconds"] > 0 for row in expected)


def test_a_queue_that_grows_evenly_is_full_when_it_says_so(spark: SparkSession, day: Day) -> None:
    at = day.until
    like = {**day.depth[0], "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "stop_count": 1_000, "stop_bytes": 0}
    rows = [{**like, "ts": at - back * 1_000_000, "ready": 900 - 10 * back} for back in range(20, 0, -1)]
    (found,) = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), at))
    assert found["seconds"] == pytest.approx(11.0)
    assert found["growth"] == pytest.approx(10.0)
    assert found["fit"] == pytest.approx(1.0)
    assert found["full_by"] == "count"


def test_messages_that_are_all_header_fill_a_queue_to_its_mark_in_bytes(spark: SparkSession, day: Day) -> None:
    at = day.until
    like = {**day.depth[0], "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "stop_count": 0, "stop_bytes": 800_000}
    rows = [
        {**like, "ts": at - back * 1_000_000, "ready": 10 - back // 2, "whole_bytes": 51_000 * (10 - back // 2)}
        for back in range(20, 0, -2)
    ]
    (found,) = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), at))
    assert (found["full_by"], found["depth_bytes"]) == ("bytes", 9 * 51_000)
    assert found["growth_bytes"] == pytest.approx(25_500)
    assert found["seconds"] == pytest.approx((800_000 - 9 * 51_000) / 25_500)


def test_rows_of_nodes_that_did_not_tell_count_bodies(spark: SparkSession, day: Day) -> None:
    old = [{name: value for name, value in row.items() if name != "whole_bytes"} for row in day.depth]
    expected = plain_time_to_full(
        [{**row, "whole_bytes": None} for row in old], day.until, time_to_full.WINDOW_US, time_to_full.SAMPLES_LEAST
    )
    assert_same(time_to_full.time_to_full(frame(spark, DEPTH, old), day.until), time_to_full.TABLE, expected)
    assert any(row["depth_bytes"] for row in expected)


def test_too_few_samples_tell_nothing(spark: SparkSession, day: Day) -> None:
    like = {**day.depth[0], "stop_count": 1_000_000, "stop_bytes": 0}
    rows = [{**like, "ts": day.until - back * 1_000_000, "ready": 500 - back} for back in range(4, 0, -1)]
    assert rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.until)) == []
