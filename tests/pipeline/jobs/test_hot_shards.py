"""Hot shards against a plain computation."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from pyspark.sql import SparkSession

from pipeline.jobs import hot_shards, shard_load
from pipeline.jobs.hot_shards import Limits
from tests.pipeline.day import Day
from tests.pipeline.jobs.test_shard_load import plain_shard_load
from tests.pipeline.tables import Row, assert_same, frame, percentile

SLOT_US = 60_000_000


def plain_hot_shards(load: list[Row], limits: Limits) -> list[Row]:
    rates, slots = {}, defaultdict(list)
    for row in load:
        rate = (row["msgs_in"] + row["msgs_out"]) * 1000 / row["covered_ms"]
        rates[row["node"], row["shard"], row["slot"]] = rate
        slots[row["node"], row["slot"]].append(rate)
    shards = defaultdict(list)
    for row in load:
        shards[row["node"], row["shard"]].append(row)
    results = []
    for (node, shard), rows in shards.items():
        own = [rates[node, shard, row["slot"]] for row in rows]
        loaded = sum(rate > limits.factor * mean(slots[node, row["slot"]]) for rate, row in zip(own, rows, strict=True))
        late = sum(row["loop_lag_p99_us"] > limits.lag_us for row in rows)
        why = [word for word, count in (("load", loaded), ("lag", late)) if 2 * count > len(rows)]
        results.append(
            {
                "node": node,
                "shard": shard,
                "hot": bool(why),
                "why": "+".join(why) or None,
                "load": mean(own),
                "p95_load": percentile(own, 0.95),
                "slots": len(rows),
                "loaded_slots": loaded,
                "late_slots": late,
                "worst_lag_us": max(row["loop_lag_p99_us"] for row in rows),
                "cpu": mean(row["cpu"] for row in rows),
                "held_ms": sum(row["held_ms"] for row in rows),
            }
        )
    means = defaultdict(list)
    for row in results:
        means[row["node"]].append(row["load"])
    for row in results:
        row["load_to_mean"] = row["load"] / mean(means[row["node"]])
    return sorted(results, key=lambda row: (-row["load"], row["node"], row["shard"]))


def test_which_shards_are_hot(spark: SparkSession, day: Day) -> None:
    load = plain_shard_load(day.shard, SLOT_US)
    expected = plain_hot_shards(load, Limits())
    answer = hot_shards.hot_shards(frame(spark, shard_load.TABLE, load), Limits())
    assert_same(answer, hot_shards.TABLE, expected)
    assert {row["shard"]: row["why"] for row in expected if row["hot"]} == {1: "load", 2: "lag"}
