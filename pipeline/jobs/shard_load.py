"""Shard load: the work of each shard, in slots of some minutes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

SLOT_US = 300_000_000

TABLE = Table(
    "shard_load",
    "A row for each shard and slot of time.",
    (
        Column("node", "string", "", "name of the node"),
        Column("shard", "int", "", "index of the shard"),
        Column("slot", "bigint", "µs since 1970 (UTC)", "start of the slot"),
        Column("msgs_in", "bigint", "messages", "enqueued"),
        Column("msgs_out", "bigint", "messages", "delivered"),
        Column("bytes_in", "bigint", "bytes", "bodies of messages enqueued"),
        Column("bytes_out", "bigint", "bytes", "bodies of messages delivered"),
        Column("cpu", "double", "cores", "processor time, as a share of the time covered"),
        Column("loop_lag_p99_us", "bigint", "µs", "greatest value of the slot"),
        Column("commit_us_p99", "bigint", "µs", "greatest value of the slot", nullable=True),
        Column("store_share", "double", "", "greatest share of the store's limit in use"),
        Column("memory_share", "double", "", "greatest share of the memory limit in use, by whole messages"),
        Column("held_ms", "bigint", "ms", "time for which it held the producers of all its queues"),
        Column("covered_ms", "bigint", "ms", "time of the slot that rows cover"),
    ),
)


def shard_load(shards: DataFrame, slot_us: int = SLOT_US) -> DataFrame:
    """Sum up the load; `shards` has rows of the table `shard`."""
    slot = F.expr(f"ts - ts % {slot_us}").alias("slot")
    covered = F.sum("interval_ms")
    grouped = shards.groupBy("node", "shard", slot).agg(
        *(F.sum(name).alias(name) for name in ("msgs_in", "msgs_out", "bytes_in", "bytes_out")),
        F.when(covered > 0, F.sum(F.col("cpu") * F.col("interval_ms")) / covered).otherwise(0.0).alias("cpu"),
        F.max("loop_lag_p99_us").alias("loop_lag_p99_us"),
        F.max("commit_us_p99").alias("commit_us_p99"),
        F.max(F.when(F.col("store_limit") > 0, F.col("store_used") / F.col("store_limit")).otherwise(0.0)).alias(
            "store_share"
        ),
        F.max(F.when(F.col("memory_limit") > 0, F.col("memory_used") / F.col("memory_limit")).otherwise(0.0)).alias(
            "memory_share"
        ),
        F.sum(F.when(F.col("saturated"), F.col("interval_ms")).otherwise(0)).alias("held_ms"),
        covered.alias("covered_ms"),
    )
    return shaped(grouped, TABLE).orderBy("node", "shard", "slot")
