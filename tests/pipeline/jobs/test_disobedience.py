"""Clients that go on publishing after a stop, against a plain computation."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import SparkSession

from penstock.telemetry.schema import CONNECTION
from pipeline.jobs import disobedience, episodes
from tests.pipeline.day import Day
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import Row, assert_same, frame, percentile


def plain_disobedience(found: list[Row], connections: list[Row]) -> list[Row]:
    versions = {(row["node"], row["epoch"], row["connection"]): row["product_version"] for row in connections}
    groups = defaultdict(list)
    for row in found:
        if row["outcome"] not in ("open", "lost"):
            version = versions.get((row["node"], row["epoch"], row["connection"]))
            groups[row["node"], row["product"] or "(unknown)", version or "(unknown)"].append(row)
    results = [
        {
            "node": node,
            "product": product,
            "product_version": version,
            "episodes": len(rows),
            "notified": sum(row["obeyed"] is not None for row in rows),
            "obeyed": sum(row["obeyed"] is True for row in rows),
            "after_stop": sum(row["after_stop"] or 0 for row in rows),
            "p99_after_stop": percentile([row["after_stop"] or 0 for row in rows], 0.99),
        }
        for (node, product, version), rows in groups.items()
    ]
    return sorted(results, key=lambda row: (-row["after_stop"], row["node"], row["product"], row["product_version"]))


def test_who_publishes_on(spark: SparkSession, day: Day) -> None:
    found = plain_episodes(day.flow, day.until)
    expected = plain_disobedience(found, day.connection)
    answer = disobedience.disobedience(frame(spark, episodes.TABLE, found), frame(spark, CONNECTION, day.connection))
    assert_same(answer, disobedience.TABLE, expected)
    assert sum(row["notified"] for row in expected) > sum(row["obeyed"] for row in expected) > 0
