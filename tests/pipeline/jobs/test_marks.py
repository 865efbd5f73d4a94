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
        by_rates = math.ceil(max(net, 0) * goals.reaction_s)
        by_episodes = math.ceil(max(over) * (1 + 1 / len(over))) if over else -1
        overshoot = max(by_rates, by_episodes)
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
                "overshoot_by": "episodes" if by_episodes >= by_rates else "rates",
                "overshoot_seen": max(over) if over else None,
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


def test_there_is_room_for_more_than_was_seen(spark: SparkSession, day: Day) -> None:
    """Two episodes overshot by 10 and 2 messages, and consumers keep up: a mark of 2,000 leaves room for 15."""
    like = {**day.depth[0], "interval_ms": 1_000, "ready": 1_000, "unacked": 0, "consumers": 1, "stop_bytes": 0}
    like |= {"n_published": 500, "n_acked": 500, "stop_count": 2_000, "resume_count": 1_000}
    depth = [{**like, "ts": day.since + second * 1_000_000, "seq": second} for second in range(60)]
    episode = {**plain_episodes(day.flow, day.until)[0], **{name: like[name] for name in ("node", "vhost", "queue")}}
    episode |= {"cause": "count", "mark": 2_000}
    found = [{**episode, "peak_depth": peak, "started": number} for number, peak in enumerate((2_010, 2_002))]
    goals = Goals(stop_percent=100)
    (row,) = rows_of(marks.marks(queues(frame(spark, DEPTH, depth)), frame(spark, episodes.TABLE, found), goals))
    assert (row["stop_count"], row["overshoot_seen"], row["overshoot"]) == (1_985, 10, 15)
