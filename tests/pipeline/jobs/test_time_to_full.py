"""Time to full against a plain computation, with least squares by the book."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import time_to_full, trend
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place, nbytes
from tests.pipeline.tables import Row, assert_same, frame, rows_of


def line(rows: list[tuple[float, float, float]]) -> tuple[float | None, float | None]:
    """Return slope and R² of a line through depths that are constant within intervals (begin, end, depth); None where
    there is none.
    """
    whole = sum(end - begin for begin, end, _ in rows)
    if not whole:
        return None, None
    mean_t = sum((end - begin) * (begin + end) / 2 for begin, end, _ in rows) / whole
    mean_y = sum((end - begin) * y for begin, end, y in rows) / whole
    tt = sum(((end - mean_t) ** 3 - (begin - mean_t) ** 3) / 3 for begin, end, _ in rows)
    yy = sum((end - begin) * (y - mean_y) ** 2 for begin, end, y in rows)
    ty = sum(((end - mean_t) ** 2 - (begin - mean_t) ** 2) / 2 * (y - mean_y) for begin, end, y in rows)
    return ty / tt, ty * ty / tt / yy if yy else None


def plain_time_to_full(depth: list[Row], at: int, window: int, least: int) -> list[Row]:
    recent = [row for row in depth if at - window <= row["ts"] < at]
    results = []
    for (node, vhost, queue), rows in by_place(recent).items():
        last, found = rows[-1], {}
        if last["ts"] + time_to_full.GONE_US < max(row["ts"] for row in recent if row["node"] == node):
            continue
        for mark, of in (("count", backlog), ("bytes", nbytes)):
            intervals = [(max(row["ts"] - row["interval_ms"] * 1000, at - window), row["ts"]) for row in rows]
            slope, fit = line(
                [((begin - at) / 1e6, (end - at) / 1e6, of(row))
                 for (begin, end), row in zip(intervals, rows, strict=True)]
            )  # fmt: skip
            reach = trend.REACH * sum(end - begin for begin, end in intervals) / 1e6
            stop, seconds = last[f"stop_{mark}"], None
            if stop and of(last) >= stop:
                seconds = 0.0
            elif stop and slope is not None and slope > 0 and len(rows) >= least and fit >= trend.FIT_LEAST:
                seconds = (stop - of(last)) / slope
                seconds = seconds if seconds <= reach else None
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
                    "forecasts": 0,  # a range of less than an hour has no record
                    "came_true": 0,
                }
            )
    return sorted(results, key=lambda row: (row["seconds"], row["node"], row["vhost"], row["queue"]))


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_when_queues_are_full(spark: SparkSession, day: Day, share: float) -> None:
    at = day.since + int((day.until - day.since) * share)
    expected = plain_time_to_full(day.depth, at, trend.WINDOW_US, trend.SAMPLES_LEAST)
    assert_same(time_to_full.time_to_full(frame(spark, DEPTH, day.depth), day.since, at), time_to_full.TABLE, expected)
    assert any(row["seconds"] == 0 for row in expected) or share < 0.5
    assert any(row["seconds"] > 0 for row in expected)


def test_a_queue_that_grows_evenly_is_full_when_it_says_so(spark: SparkSession, day: Day) -> None:
    at = day.until
    like = {**day.depth[0], "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "stop_count": 1_000, "stop_bytes": 0}
    like |= {"interval_ms": 1_000}
    rows = [{**like, "ts": at - back * 1_000_000, "ready": 900 - 10 * back} for back in range(20, 0, -1)]
    (found,) = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.since, at))
    assert found["seconds"] == pytest.approx(11.0, rel=0.01)
    assert found["growth"] == pytest.approx(10.0, rel=0.01)
    assert found["fit"] == pytest.approx(1.0, rel=0.01)
    assert found["full_by"] == "count"


def test_messages_that_are_all_header_fill_a_queue_to_its_mark_in_bytes(spark: SparkSession, day: Day) -> None:
    at = day.until
    like = {**day.depth[0], "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "stop_count": 0, "stop_bytes": 800_000}
    like |= {"interval_ms": 2_000}
    rows = [
        {**like, "ts": at - back * 1_000_000, "ready": 10 - back // 2, "whole_bytes": 51_000 * (10 - back // 2)}
        for back in range(20, 0, -2)
    ]
    (found,) = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.since, at))
    assert (found["full_by"], found["depth_bytes"]) == ("bytes", 9 * 51_000)
    assert found["growth_bytes"] == pytest.approx(25_500, rel=0.02)
    assert found["seconds"] == pytest.approx((800_000 - 9 * 51_000) / 25_500, rel=0.02)


def test_rows_of_nodes_that_did_not_tell_count_bodies(spark: SparkSession, day: Day) -> None:
    old = [{name: value for name, value in row.items() if name != "whole_bytes"} for row in day.depth]
    expected = plain_time_to_full(
        [{**row, "whole_bytes": None} for row in old], day.until, trend.WINDOW_US, trend.SAMPLES_LEAST
    )
    assert_same(time_to_full.time_to_full(frame(spark, DEPTH, old), day.since, day.until), time_to_full.TABLE, expected)
    assert any(row["depth_bytes"] for row in expected)


def test_too_few_samples_tell_nothing(spark: SparkSession, day: Day) -> None:
    like = {**day.depth[0], "stop_count": 1_000_000, "stop_bytes": 0}
    rows = [{**like, "ts": day.until - back * 1_000_000, "ready": 500 - back} for back in range(4, 0, -1)]
    assert rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.since, day.until)) == []


def test_a_queue_that_rose_and_was_drained_is_not_about_to_be_full(spark: SparkSession, day: Day) -> None:
    """The rise wrote a row a second, the empty queue one a minute."""
    like = {**day.depth[0], "unacked": 0, "stop_count": 1_000, "stop_bytes": 0}
    ages = [
        *((595 - second, 1_000, 3 * second) for second in range(300)),
        *((290 - 58 * n, 58_000, 0) for n in range(5)),
    ]
    rows = [{**like, "ts": day.until - age * 1_000_000, "interval_ms": interval, "ready": ready}
            for age, interval, ready in ages]  # fmt: skip
    depth = frame(spark, DEPTH, rows)
    assert rows_of(time_to_full.time_to_full(depth, day.since, day.until)) == []
    begin, end = (F.lit(at) for at in (day.until - trend.WINDOW_US, day.until))
    (found,) = rows_of(trend.lines(trend.points(depth, begin, end).groupBy("queue")))
    assert found["growth"] < 0


def test_a_queue_that_is_gone_is_not_full(spark: SparkSession, day: Day) -> None:
    """It was full until it was deleted, three minutes before the last row of its node."""
    like = {**day.depth[0], "unacked": 0, "stop_count": 1_000, "stop_bytes": 0, "interval_ms": 10_000}
    ages = [(queue, age) for queue, least in (("gone", 180), ("here", 0)) for age in range(600, least, -10)]
    rows = [{**like, "queue": queue, "ts": day.until - age * 1_000_000, "ready": 1_000} for queue, age in ages]
    (found,) = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.since, day.until))
    assert (found["queue"], found["seconds"]) == ("here", 0)


def test_a_few_seconds_foresee_no_hour(spark: SparkSession, day: Day) -> None:
    like = {**day.depth[0], "unacked": 0, "stop_count": 10_000, "stop_bytes": 0, "interval_ms": 1_000}
    rows = [{**like, "ts": day.until - back * 1_000_000, "ready": 900 - 10 * back} for back in range(20, 0, -1)]
    assert rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), day.since, day.until)) == []


@pytest.mark.parametrize(("cycles", "shown"), [(2, True), (12, False)])
def test_a_queue_that_is_drained_before_it_is_full_has_a_record(
    spark: SparkSession, day: Day, cycles: int, shown: bool
) -> None:
    """It rises for half an hour and is drained, again and again. A short record says nothing."""
    since, minutes = day.until - cycles * 30 * 60_000_000, range(cycles * 30)
    like = {**day.depth[0], "unacked": 0, "stop_count": 1_000, "stop_bytes": 0, "interval_ms": 60_000}
    rows = [{**like, "ts": since + (n + 1) * 60_000_000 - 1, "ready": 25 * (n % 30)} for n in minutes]
    found = rows_of(time_to_full.time_to_full(frame(spark, DEPTH, rows), since, day.until))
    assert bool(found) == shown
    assert all(row["came_true"] == 0 for row in found)
