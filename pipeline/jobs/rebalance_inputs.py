"""Rebalance inputs: the facts of each queue that a plan needs."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.queues import PLACE
from pipeline.schema import shaped

SLOT_US = 60_000_000

TABLE = Table(
    "rebalance_inputs",
    "A row for each queue, the busiest first. Rates count messages in and out, in slots of a minute.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("shard", "int", "", "last shard of the queue"),
        Column("p50_rate", "double", "messages a second", "median of the slots"),
        Column("p95_rate", "double", "messages a second", "95th percentile of the slots"),
        Column("p50_bytes_rate", "double", "bytes a second", "of bodies: median of the slots"),
        Column("p95_bytes_rate", "double", "bytes a second", "of bodies: 95th percentile of the slots"),
        Column("peak_depth", "bigint", "messages", "greatest depth, ready and unacked"),
        Column("peak_bytes", "bigint", "bytes", "greatest size of the whole messages, ready and unacked"),
        Column("stopped_share", "double", "", "share of the time covered for which the queue held producers"),
        Column("backlog", "bigint", "messages", "ready and unacked, last seen"),
        Column("backlog_bytes", "bigint", "bytes", "size of these as whole messages"),
        Column("coverage", "double", "", "share of the range that rows of the queue cover, at most 1"),
    ),
)


def with_rates(queues: DataFrame, depth: DataFrame) -> DataFrame:
    """Add to the facts of each queue the median and the 95th percentile of its slots, as arrays: `moved`, in messages,
    and `moved_bytes`. `queues` comes from `pipeline.jobs.queues` for these rows of `depth`.
    """
    slots = depth.groupBy(*PLACE, F.expr(f"ts div {SLOT_US}").alias("slot")).agg(
        F.sum(F.col("n_published") + F.col("n_delivered")).alias("moved"),
        F.sum(F.col("published_bytes") + F.col("delivered_bytes")).alias("moved_bytes"),
    )
    rates = slots.groupBy(*PLACE).agg(
        *(F.percentile(name, [0.5, 0.95]).alias(name) for name in ("moved", "moved_bytes"))
    )
    return queues.join(rates, [*PLACE])


def rebalance_inputs(queues: DataFrame, since: int, until: int) -> DataFrame:
    """Compute the inputs for the time from `since` to `until` (µs since 1970). `queues` comes from
    `with_rates`.
    """
    seconds = SLOT_US / 1e6
    covered = F.col("covered_ms")
    result = queues.withColumns(
        {
            "p50_rate": F.col("moved")[0] / seconds,
            "p95_rate": F.col("moved")[1] / seconds,
            "p50_bytes_rate": F.col("moved_bytes")[0] / seconds,
            "p95_bytes_rate": F.col("moved_bytes")[1] / seconds,
            "stopped_share": F.when(covered > 0, F.col("stopped_ms") / covered).otherwise(0.0),
            "shard": F.col("last.shard"),
            "backlog": F.col("last.depth"),
            "backlog_bytes": F.col("last.bytes"),
            "coverage": F.least(covered * 1000 / (until - since), F.lit(1.0)),
        }
    )
    return shaped(result, TABLE).orderBy(F.desc("p95_rate"), *PLACE)
