"""Rebalance inputs against a plain computation."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import rebalance_inputs
from pipeline.jobs.queues import queues
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place, nbytes
from tests.pipeline.tables import Row, assert_same, frame, percentile

MINUTE = 60_000_000


def plain_rebalance_inputs(depth: list[Row], since: int, until: int) -> list[Row]:
    results = []
    for (node, vhost, queue), rows in sorted(by_place(depth).items()):
        moved: dict[int, int] = defaultdict(int)
        moved_bytes: dict[int, int] = defaultdict(int)
        for row in rows:
            moved[row["ts"] // MINUTE] += row["n_published"] + row["n_delivered"]
            moved_bytes[row["ts"] // MINUTE] += row["published_bytes"] + row["delivered_bytes"]
        covered = sum(row["interval_ms"] for row in rows)
        results.append(
            {
                "node": node,
                "vhost": vhost,
                "queue": queue,
                "shard": rows[-1]["shard"],
                **{f"p{share}_rate": percentile(moved.values(), share / 100) / 60 for share in (50, 95)},
                **{f"p{share}_bytes_rate": percentile(moved_bytes.values(), share / 100) / 60 for share in (50, 95)},
                "peak_depth": max(map(backlog, rows)),
                "peak_bytes": max(map(nbytes, rows)),
                "stopped_share": sum(row["interval_ms"] for row in rows if row["saturated"]) / covered,
                "backlog": backlog(rows[-1]),
                "backlog_bytes": nbytes(rows[-1]),
                "coverage": min(covered * 1000 / (until - since), 1.0),
            }
        )
    return sorted(results, key=lambda row: -row["p95_rate"])


def test_what_a_plan_has_to_know(spark: SparkSession, day: Day) -> None:
    depth = frame(spark, DEPTH, day.depth)
    answer = rebalance_inputs.rebalance_inputs(rebalance_inputs.with_rates(queues(depth), depth), day.since, day.until)
    expected = plain_rebalance_inputs(day.depth, day.since, day.until)
    assert_same(answer, rebalance_inputs.TABLE, expected)
    assert all(row["coverage"] > 0.9 for row in expected)


def test_thin_coverage_shows(spark: SparkSession, day: Day) -> None:
    rows = [row for row in day.depth if row["ts"] < (day.since + day.until) // 2]
    depth = frame(spark, DEPTH, rows)
    answer = rebalance_inputs.rebalance_inputs(rebalance_inputs.with_rates(queues(depth), depth), day.since, day.until)
    expected = plain_rebalance_inputs(rows, day.since, day.until)
    assert_same(answer, rebalance_inputs.TABLE, expected)
    assert all(row["coverage"] < 0.55 for row in expected)
