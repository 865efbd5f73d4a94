"""The culprits' ledger: who caused how much waiting to whom.

A full queue holds its producers because its consumers fail it or because more is published than they ever take. Which
of both it was is decided minute by minute, by what the queue's consumers did then and what they do usually (the median
of the minutes in which they had something to do); the time a session was held is shared out over the minutes.
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
"""Consumers that take less than this of what they take usually are slow."""

TABLE = Table(
    "culprits",
    "Time for which sessions were held, by what held them, whose fault that was, and who waited; the longest first.",
    (
        Column("vhost", "string", "", "of the sessions"),
        Column("queue", "string", "", "the full queue; in brackets the cause where it was no single queue"),
        Column("fault", "string", "", "`no consumers`, `consumers stuck` (they acked nothing), `consumers slow` (less "
               "than half of what is usual), `producers` (consumers as usual), `limit` (no single queue), `unknown` "
               "(no rows of that minute)"),
        Column("user", "string", "", "who waited"),
        Column("product", "string", "", f"what that client calls itself, or `{UNKNOWN}`"),
        Column("stopped_ms", "bigint", "ms", "for how long, summed over sessions"),
        Column("episodes", "bigint", "", "in how many episodes"),
        Column("pusher", "string", "", "the user who tried to publish most to it while it was full", nullable=True),
        Column("pusher_share", "double", "", "share of all such publishes", nullable=True),
    ),
)  # fmt: skip


def culprits(episodes: DataFrame, depth: DataFrame, until: int) -> DataFrame:
    """`episodes`: of `pipeline.jobs.episodes`; `depth`: rows of the table; both of a range that ends at `until`."""
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
        "vhost", named_queue().alias("queue"), fault.alias("fault"), "user", product.alias("product")
    ).agg(F.expr("sum(us) div 1000").alias("stopped_ms"), F.countDistinct("episode").alias("episodes"))
    told = grouped.join(_pushers(episodes), [*PLACE], "left")
    return shaped(told, TABLE).orderBy(F.desc("stopped_ms"), "vhost", "queue", "fault", "user", "product")


def faults(depth: DataFrame, episodes: DataFrame) -> DataFrame:
    """For each minute of queues that held somebody: vhost, queue, minute (of 1970), fault."""
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
    """For what held somebody: who tried to publish most meanwhile, and what share that is. Ties: the first by name."""
    pushed = F.coalesce("parked", F.lit(0)) + F.coalesce("after_stop", F.lit(0))
    users = episodes.groupBy("vhost", named_queue().alias("queue"), "user").agg(F.sum(pushed).alias("pushed"))
    most = users.where(F.col("pushed") > 0).groupBy(*PLACE)
    return most.agg(
        F.min_by("user", F.struct(-F.col("pushed"), F.col("user"))).alias("pusher"),
        (F.max("pushed") / F.sum("pushed")).alias("pusher_share"),
    )
