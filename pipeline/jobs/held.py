"""Held producers: who was held, at which queue, for how long."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

UNKNOWN = "(unknown)"

TABLE = Table(
    "held",
    "How long producers were held, by user, product and what held them; the longest first.",
    (
        Column("user", "string", "", "who was logged in"),
        Column("product", "string", "", f"what the client calls itself; `{UNKNOWN}` if it does not say"),
        Column("vhost", "string", "", "of the sessions"),
        Column("queue", "string", "", "the full queue; in brackets the cause where it was no single queue"),
        Column("episodes", "bigint", "", "how often"),
        Column("sessions", "bigint", "", "different channels that were held"),
        Column("stopped_ms", "bigint", "ms", "for how long, summed over sessions"),
        Column("p95_ms", "double", "ms", "95th percentile of an episode"),
        Column("longest_ms", "bigint", "ms", "longest episode"),
        Column("parked", "bigint", "messages", "publishes that were parked"),
        Column("after_stop", "bigint", "messages", "publishes that came after the client was told"),
        Column("open", "bigint", "", "episodes that are not over"),
    ),
)


def held(episodes: DataFrame) -> DataFrame:
    """`episodes`: columns of `pipeline.jobs.episodes.TABLE`."""
    keys = {
        "user": F.col("user"),
        "product": F.coalesce("product", F.lit(UNKNOWN)),
        "vhost": F.col("vhost"),
        "queue": named_queue(),
    }
    grouped = episodes.groupBy(*(column.alias(name) for name, column in keys.items())).agg(
        F.count(F.lit(1)).alias("episodes"),
        F.countDistinct("node", "epoch", "connection", "channel").alias("sessions"),
        F.sum("stopped_ms").alias("stopped_ms"),
        F.percentile("stopped_ms", 0.95).alias("p95_ms"),
        F.max("stopped_ms").alias("longest_ms"),
        F.sum(F.coalesce("parked", F.lit(0))).alias("parked"),
        F.sum(F.coalesce("after_stop", F.lit(0))).alias("after_stop"),
        F.count_if(F.col("outcome") == "open").alias("open"),
    )
    return shaped(grouped, TABLE).orderBy(F.desc("stopped_ms"), "user", "product", "vhost", "queue")


def named_queue() -> Expression:
    """The queue, or the cause in brackets where it was no single queue that held."""
    return F.coalesce("queue", F.concat(F.lit("("), "cause", F.lit(")")))
