"""Hot shards: shards with much more than the mean load of their node, or with a late loop, most of the time."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

TABLE = Table(
    "hot_shards",
    "Every shard, the most loaded first. Load is messages in and out.",
    (
        Column("node", "string", "", "name of the node"),
        Column("shard", "int", "", "index of the shard"),
        Column("hot", "boolean", "", "whether more than half of its slots are above the factor, or are late"),
        Column("why", "string", "", "`load`, `lag`, or both joined by `+`; null if not hot", nullable=True),
        Column("load", "double", "messages a second", "mean over the slots"),
        Column("load_to_mean", "double", "", "ratio of the load to the mean load of the node's shards"),
        Column("p95_load", "double", "messages a second", "95th percentile of the slots"),
        Column("slots", "bigint", "", "slots with rows of the shard"),
        Column("loaded_slots", "bigint", "", "of these, slots above the factor"),
        Column("late_slots", "bigint", "", "of these, slots in which its loop was late"),
        Column("worst_lag_us", "bigint", "µs", "greatest 99th percentile of its loop's lag"),
        Column("cpu", "double", "cores", "mean processor time"),
        Column("held_ms", "bigint", "ms", "time for which it held the producers of all its queues"),
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When a slot counts: load above `factor` times the mean of the node, loop lag above `lag_us`."""

    factor: float = 1.5
    lag_us: int = 100_000


def hot_shards(load: DataFrame, limits: Limits) -> DataFrame:
    """Rank the shards; `load` comes from `pipeline.jobs.shard_load`."""
    moved = F.col("msgs_in") + F.col("msgs_out")
    rate = F.when(F.col("covered_ms") > 0, moved * 1000 / F.col("covered_ms")).otherwise(0.0)
    rated = load.select("node", "shard", "slot", "cpu", "loop_lag_p99_us", "held_ms", rate.cast("double").alias("rate"))
    means = rated.groupBy("node", "slot").agg(F.avg("rate").alias("mean"))
    loaded = (F.col("mean") > 0) & (F.col("rate") > limits.factor * F.col("mean"))
    grouped = (
        rated.join(means, ["node", "slot"])
        .groupBy("node", "shard")
        .agg(
            F.avg("rate").alias("load"),
            F.percentile("rate", 0.95).alias("p95_load"),
            F.count(F.lit(1)).alias("slots"),
            F.count_if(loaded).alias("loaded_slots"),
            F.count_if(F.col("loop_lag_p99_us") > limits.lag_us).alias("late_slots"),
            F.max("loop_lag_p99_us").alias("worst_lag_us"),
            F.avg("cpu").alias("cpu"),
            F.sum("held_ms").alias("held_ms"),
        )
    )
    nodes = grouped.groupBy("node").agg(F.avg("load").alias("node_load"))
    by_load, by_lag = (F.col(name) * 2 > F.col("slots") for name in ("loaded_slots", "late_slots"))
    why = F.concat_ws("+", F.when(by_load, "load"), F.when(by_lag, "lag"))
    result = grouped.join(nodes, "node").withColumns(
        {
            "hot": by_load | by_lag,
            "why": F.when(by_load | by_lag, why),
            "load_to_mean": F.when(F.col("node_load") > 0, F.col("load") / F.col("node_load")).otherwise(0.0),
        }
    )
    return shaped(result, TABLE).orderBy(F.desc("load"), "node", "shard")
