"""Held producers: which users were held, at which queue, for how long."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

UNKNOWN = "(unknown)"

TABLE = Table(
    "held",
    "How long producers were held, by user, product and cause; the longest first.",
    (
        Column("node", "string", "", "name of the node"),
        Column("user", "string", "", "user of the connection"),
        Column("product", "string", "", f"product that the client names; `{UNKNOWN}` if it names none"),
        Column("vhost", "string", "", "virtual host of the channels"),
        Column("queue", "string", "", "the full queue; the cause in brackets if no single queue held the channels"),
        Column("episodes", "bigint", "", "number of episodes"),
        Column("channels", "bigint", "", "number of different channels that were held"),
        Column("stopped_ms", "bigint", "ms", "time held, summed over channels"),
        Column("p95_ms", "double", "ms", "95th percentile of an episode"),
        Column("longest_ms", "bigint", "ms", "longest episode"),
        Column("parked", "bigint", "messages", "publishes that were parked"),
        Column("after_stop", "bigint", "messages", "publishes received after the client was notified"),
        Column("open", "bigint", "", "episodes that have not ended"),
    ),
)


def held(episodes: DataFrame) -> DataFrame:
    """Sum up held time; `episodes` has the columns of `pipeline.jobs.episodes.TABLE`."""
    keys = {
        "node": F.col("node"),
        "user": F.col("user"),
        "product": F.coalesce("product", F.lit(UNKNOWN)),
        "vhost": F.col("vhost"),
        "queue": named_queue(),
    }
    grouped = episodes.groupBy(*(column.alias(name) for name, column in keys.items())).agg(
        F.count(F.lit(1)).alias("episodes"),
        F.countDistinct("node", "epoch", "connection", "channel").alias("channels"),
        F.sum("stopped_ms").alias("stopped_ms"),
        F.percentile("stopped_ms", 0.95).alias("p95_ms"),
        F.max("stopped_ms").alias("longest_ms"),
        F.sum(F.coalesce("parked", F.lit(0))).alias("parked"),
        F.sum(F.coalesce("after_stop", F.lit(0))).alias("after_stop"),
        F.count_if(F.col("outcome") == "open").alias("open"),
    )
    return shaped(grouped, TABLE).orderBy(F.desc("stopped_ms"), "node", "user", "product", "vhost", "queue")


def named_queue() -> Expression:
    """Return the queue, or the cause in brackets if no single queue held the channel."""
    return F.coalesce("queue", F.concat(F.lit("("), "cause", F.lit(")")))
