"""Shard load against a plain computation."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import SparkSession

from penstock.telemetry.schema import SHARD
from pipeline.jobs import shard_load
from tests.pipeline.day import Day
from tests.pipeline.tables import Row, assert_same, frame


def plain_shard_load(rows: list[Row], slot_us: int) -> list[Row]:
    slots = defaultdict(list)
    for row in rows:
        slots[row["node"], row["shard"], row["ts"] // slot_us * slot_us].append(row)
    results = []
    for (node, shard, slot), group in sorted(slots.items()):
        covered = sum(row["interval_ms"] for row in group)
        commits = [row["commit_us_p99"] for row in group if row["commit_us_p99"] is not None]
        results.append(
            {
                "node": node,
                "shard": shard,
                "slot": slot,
                "covered_ms": covered,
                **{name: sum(row[name] for row in group) for name in ("msgs_in", "msgs_out", "bytes_in", "bytes_out")},
                "cpu": sum(row["cpu"] * row["interval_ms"] for row in group) / covered,
                "loop_lag_p99_us": max(row["loop_lag_p99_us"] for row in group),
                "commit_us_p99": max(commits, default=None),
                "store_share": max(row["store_used"] / row["store_limit"] for row in group),
                "memory_share": max(row["memory_used"] / row["memory_limit"] for row in group),
                "held_ms": sum(row["interval_ms"] for row in group if row["saturated"]),
            }
        )
    return results


def test_what_shards_did(spark: SparkSession, day: Day) -> None:
    expected = plain_shard_load(day.shard, shard_load.SLOT_US)
    assert_same(shard_load.shard_load(frame(spark, SHARD, day.shard)), shard_load.TABLE, expected)
    assert len(expected) == 4 * 4
