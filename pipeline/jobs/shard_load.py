"""Shard load: what each shard did, in slots of some minutes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

SLOT_US = 300_000_000

TABLE = Table(
    "shard_load",
    "A row a shard and slot of time.",
    (
        Column("node", "string", "", "name of the node"),
        Column("shard", "int", "", "its index"),
        Column("slot", "bigint", "µs since 1970 (UTC)", "when the slot begins"),
        Column("msgs_in", "bigint", "messages", "enqueued"),
        Column("msgs_out", "bigint", "messages", "given to consumers"),
        Column("bytes_in", "bigint", "bytes", "bodies of those enqueued"),
        Column("bytes_out", "bigint", "bytes", "bodies of those given to consumers"),
        Column("cpu", "double", "cores", "processor time, as a share of the time covered"),
        Column("loop_lag_p99_us", "bigint", "µs", "the worst of the slot"),
        Column("commit_us_p99", "bigint", "µs", "the worst of the slot", nullable=True),
        Column("store_share", "double", "", "contents in its store of what may be there, the most"),
        Column("memory_share", "double", "", "contents in memory, of whole messages, of what may be there, the most"),
        Column("held_ms", "bigint", "ms", "for how long it held the producers of all its queues"),
        Column("covered_ms", "bigint", "ms", "time of the slot that rows cover"),
    ),
)


def shard_load(shards: DataFrame, slot_us: int = SLOT_US) -> DataFrame:
    """`shards`: rows of the table `shard`."""
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
