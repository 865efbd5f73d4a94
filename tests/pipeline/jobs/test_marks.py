"""Recommended marks against a plain computation of the same rules."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import episodes, marks
from pipeline.jobs.marks import Goals
from pipeline.jobs.queues import queues
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place, nbytes, plain_episodes
from tests.pipeline.tables import Row, assert_same, frame, percentile, rows_of


def plain_marks(depth: list[Row], found: list[Row], goals: Goals) -> list[Row]:
    results = []
    for (node, vhost, queue), rows in by_place(depth).items():
        timed = [row for row in rows if row["interval_ms"] > 0]
        busy = [row for row in timed if backlog(row) and row["consumers"]]
        drain = percentile([row["n_acked"] * 1000 / row["interval_ms"] for row in busy], 0.5) if busy else 0
        if not drain:
            continue
        last = rows[-1]
        over = [
            max(row["peak_depth"] - row["mark"], 0)
            for row in found
            if (row["node"], row["vhost"], row["queue"], row["cause"]) == (node, vhost, queue, "count")
            and row["peak_depth"] is not None
        ]
        net = percentile([(row["n_published"] - row["n_acked"]) * 1000 / row["interval_ms"] for row in timed], 0.99)
        overshoot = math.ceil(percentile(over, 0.99)) if over else math.ceil(max(net, 0) * goals.reaction_s)
        by_wait = math.floor(drain * goals.longest_wait_s)
        limit = last["stop_count"] * 100 // goals.stop_percent
        stop, rule = by_wait, "queueing time"
        if limit and limit - overshoot < by_wait:
            stop, rule = limit - overshoot, "overshoot"
        stop = max(stop, 1)
        share, dry = stop * goals.resume_percent // 100, math.ceil(drain * goals.refill_s)
        resume_rule = "stop mark" if dry > stop else "never dry" if dry > share else "share"
        resume = min(max(share, dry), stop)
        messages = sum(map(backlog, rows))
        size = sum(map(nbytes, rows)) / messages if messages else None
        stop_bytes = resume_bytes = None
        if last["stop_bytes"] and size:
            most = max(last["stop_bytes"] * 100 / goals.stop_percent - overshoot * size, 1)
            stop_bytes = math.floor(min(stop * size, most))
            resume_bytes = math.floor(min(resume * size, most * (goals.resume_percent / 100)))
        results.append(
            {
                "node": node,
                "vhost": vhost,
                "queue": queue,
                "stop_count": stop,
                "resume_count": resume,
                "stop_rule": rule,
                "stop_bytes": stop_bytes,
                "resume_bytes": resume_bytes,
                "resume_rule": resume_rule,
                "drain": drain,
                **{f"present_{name}": last[name] for name in marks.PRESENT},
                "overshoot": overshoot,
                "overshoot_by": "episodes" if over else "rates",
                "message_bytes": size,
                "stopped_ms": sum(row["interval_ms"] for row in rows if row["saturated"]),
            }
        )
    return sorted(results, key=lambda row: (-row["stopped_ms"], row["node"], row["vhost"], row["queue"]))


@pytest.mark.parametrize("goals", [Goals(), Goals(longest_wait_s=600.0, refill_s=400.0), Goals(refill_s=50.0)])
def test_marks_and_the_rule_that_decided(spark: SparkSession, day: Day, goals: Goals) -> None:
    found = plain_episodes(day.flow, day.until)
    expected = plain_marks(day.depth, found, goals)
    answer = marks.marks(queues(frame(spark, DEPTH, day.depth)), frame(spark, episodes.TABLE, found), goals)
    assert_same(answer, marks.TABLE, expected)
    assert all(0 <= row["resume_count"] <= row["stop_count"] for row in expected)
    assert {row["overshoot_by"] for row in expected} == {"episodes", "rates"}


def test_every_rule_decides_somewhere(spark: SparkSession, day: Day) -> None:
    found = plain_episodes(day.flow, day.until)
    rules = set()
    for goals in (Goals(), Goals(longest_wait_s=600.0, refill_s=400.0), Goals(refill_s=50.0)):
        for row in plain_marks(day.depth, found, goals):
            rules |= {row["stop_rule"], row["resume_rule"]}
    assert rules == {"overshoot", "queueing time", "share", "never dry", "stop mark"}


def test_a_queue_that_nobody_drains_gets_none(spark: SparkSession, day: Day) -> None:
    rows = [row for row in day.depth if row["queue"].startswith("alone")]
    none = frame(spark, episodes.TABLE, [])
    assert rows_of(marks.marks(queues(frame(spark, DEPTH, rows)), none, Goals())) == []
