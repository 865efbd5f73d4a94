"""The culprits' ledger: who made whom wait, and for how long.

A full queue holds its producers because its consumers fail it, or because more is published than they ever handle.
Which of the two it was is decided minute by minute, by comparing the acks of that minute with the usual rate of the
queue's consumers (the median of the minutes in which they were busy). The time for which a channel was held is divided
among these minutes.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.held import UNKNOWN, named_queue
from pipeline.jobs.queues import PLACE, backlog
from pipeline.schema import shaped

MINUTE_US = 60_000_000
SLOW_SHARE = 0.5
"""Consumers that ack less than this share of their usual rate are slow."""

TABLE = Table(
    "culprits",
    "Time for which channels were held, by cause, fault and waiting user; the longest first.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the channels"),
        Column("queue", "string", "", "the full queue; the cause in brackets if no single queue held the channels"),
        Column("fault", "string", "", "`no consumers`, `consumers stuck` (they acked nothing), `consumers slow` (less "
               "than half of their usual rate), `producers` (consumers as usual), `limit` (no single queue), `unknown` "
               "(no rows of that minute)"),
        Column("user", "string", "", "the user who waited"),
        Column("product", "string", "", f"product that the client names, or `{UNKNOWN}`"),
        Column("stopped_ms", "bigint", "ms", "time held, summed over channels"),
        Column("episodes", "bigint", "", "number of episodes"),
        Column("pusher", "string", "", "the user who tried to publish most to the full queue", nullable=True),
        Column("pusher_share", "double", "", "the pusher's share of all such publishes", nullable=True),
    ),
)  # fmt: skip


def culprits(episodes: DataFrame, depth: DataFrame, until: int) -> DataFrame:
    """Build the ledger. `episodes` comes from `pipeline.jobs.episodes`, `depth` has rows of the table; both cover a
    range that ends at `until`.
    """
    held = episodes.withColumns(
        {"episode": F.struct("node", "epoch", "connection", "channel", "started"), "end": _end(until)}
    )
    minutes = held.withColumn(
        "minute",
        F.explode(
            F.sequence(
                F.expr(f"started div {MINUTE_US}"),
                F.expr(f"greatest(started, `end` - 1) div {MINUTE_US}"),
            )
        ),
    )
    minutes = minutes.withColumn(
        "us",
        F.least("end", (F.col("minute") + 1) * MINUTE_US) - F.greatest("started", F.col("minute") * MINUTE_US),
    )
    judged = minutes.join(faults(depth, episodes), [*PLACE, "minute"], "left")
    fault = F.when(F.col("queue").isNull(), "limit").otherwise(F.coalesce("fault", F.lit("unknown")))
    product = F.coalesce("product", F.lit(UNKNOWN))
    grouped = judged.groupBy(
        "node", "vhost", named_queue().alias("queue"), fault.alias("fault"), "user", product.alias("product")
    ).agg(F.expr("sum(us) div 1000").alias("stopped_ms"), F.countDistinct("episode").alias("episodes"))
    result = grouped.join(_pushers(episodes), [*PLACE], "left")
    return shaped(result, TABLE).orderBy(F.desc("stopped_ms"), *PLACE, "fault", "user", "product")


def faults(depth: DataFrame, episodes: DataFrame) -> DataFrame:
    """Return node, vhost, queue, minute (since 1970) and fault for each minute of the queues that held a channel."""
    concerned = episodes.select(*PLACE).where(F.col("queue").isNotNull()).distinct()
    minutes = (
        depth.join(F.broadcast(concerned), [*PLACE], "left_semi")
        .groupBy(*PLACE, F.expr(f"ts div {MINUTE_US}").alias("minute"))
        .agg(
            F.sum("n_acked").alias("acked"),
            F.max("consumers").alias("consumers"),
            F.max(backlog()).alias("backlog"),
        )
    )
    busy = (F.col("consumers") > 0) & (F.col("backlog") > 0) & (F.col("acked") > 0)
    usual = F.percentile(F.when(busy, F.col("acked")), 0.5).over(Window.partitionBy(*PLACE))
    fault = (
        F.when(F.col("consumers") == 0, "no consumers")
        .when(F.col("acked") == 0, "consumers stuck")
        .when(F.col("acked") < usual * SLOW_SHARE, "consumers slow")
        .otherwise("producers")
    )
    return minutes.select(*PLACE, "minute", fault.alias("fault"))


def _end(until: int) -> Expression:
    return F.coalesce("ended", F.lit(until))


def _pushers(episodes: DataFrame) -> DataFrame:
    """Return, for each queue or other cause, the user who tried to publish most and that user's share. Ties go to the
    first by name.
    """
    pushed = F.coalesce("parked", F.lit(0)) + F.coalesce("after_stop", F.lit(0))
    users = episodes.groupBy("node", "vhost", named_queue().alias("queue"), "user").agg(F.sum(pushed).alias("pushed"))
    most = users.where(F.col("pushed") > 0).groupBy(*PLACE)
    return most.agg(
        F.min_by("user", F.struct(-F.col("pushed"), F.col("user"))).alias("pusher"),
        (F.max("pushed") / F.sum("pushed")).alias("pusher_share"),
    )
