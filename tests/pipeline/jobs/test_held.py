"""Held producers against a plain computation."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import SparkSession

from pipeline.jobs import episodes, held
from tests.pipeline.day import Day
from tests.pipeline.plain import named_queue, plain_episodes
from tests.pipeline.tables import Row, assert_same, frame, percentile


def plain_held(found: list[Row]) -> list[Row]:
    groups = defaultdict(list)
    for row in found:
        groups[row["node"], row["user"], row["product"] or held.UNKNOWN, row["vhost"], named_queue(row)].append(row)
    results = [
        {
            **dict(zip(("node", "user", "product", "vhost", "queue"), key, strict=True)),
            "episodes": len(rows),
            "channels": len({(row["node"], row["epoch"], row["connection"], row["channel"]) for row in rows}),
            "stopped_ms": sum(row["stopped_ms"] for row in rows),
            "p95_ms": percentile([row["stopped_ms"] for row in rows], 0.95),
            "longest_ms": max(row["stopped_ms"] for row in rows),
            "parked": sum(row["parked"] or 0 for row in rows),
            "after_stop": sum(row["after_stop"] or 0 for row in rows),
            "open": sum(row["outcome"] == "open" for row in rows),
        }
        for key, rows in groups.items()
    ]
    return sorted(
        results,
        key=lambda row: (-row["stopped_ms"], row["node"], row["user"], row["product"], row["vhost"], row["queue"]),
    )


def test_who_was_held_and_for_how_long(spark: SparkSession, day: Day) -> None:
    found = plain_episodes(day.flow, day.until)
    expected = plain_held(found)
    assert_same(held.held(frame(spark, episodes.TABLE, found)), held.TABLE, expected)
    assert {held.UNKNOWN, "pika"} <= {row["product"] for row in expected}
    assert "(memory)" in {row["queue"] for row in expected}
