"""Disobedience: which clients keep publishing after a request to stop."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.held import UNKNOWN
from pipeline.schema import shaped

TABLE = Table(
    "disobedience",
    "Reaction of clients to a stop, by product and version; those that published most after it come first. Episodes "
    "that are open or lost are not counted, as their end is not known.",
    (
        Column("node", "string", "", "name of the node"),
        Column("product", "string", "", f"product that the client names; `{UNKNOWN}` if it names none"),
        Column(
            "product_version",
            "string",
            "",
            f"its version; `{UNKNOWN}` also if the connection predates the range",
        ),
        Column("episodes", "bigint", "", "number of episodes in which the client was held"),
        Column("notified", "bigint", "", "episodes announced by Channel.Flow and answered"),
        Column("obeyed", "bigint", "", "of these, episodes in which the client stopped publishing"),
        Column("after_stop", "bigint", "messages", "publishes received after the client was notified"),
        Column("p99_after_stop", "double", "messages", "99th percentile of `after_stop` per episode"),
    ),
)


def disobedience(episodes: DataFrame, connections: DataFrame) -> DataFrame:
    """Summarize clients' reactions. `episodes` comes from `pipeline.jobs.episodes`, `connections` has rows of
    `connection`.
    """
    versions = connections.groupBy("node", "epoch", "connection").agg(
        F.max_by("product_version", F.struct("ts", "seq")).alias("product_version")
    )
    known = episodes.where(~F.col("outcome").isin("open", "lost")).join(
        versions, ["node", "epoch", "connection"], "left"
    )
    keys = [F.coalesce(name, F.lit(UNKNOWN)).alias(name) for name in ("product", "product_version")]
    grouped = known.groupBy("node", *keys).agg(
        F.count(F.lit(1)).alias("episodes"),
        F.count("obeyed").alias("notified"),
        F.count_if("obeyed").alias("obeyed"),
        F.sum(F.coalesce("after_stop", F.lit(0))).alias("after_stop"),
        F.percentile(F.coalesce("after_stop", F.lit(0)), 0.99).alias("p99_after_stop"),
    )
    return shaped(grouped, TABLE).orderBy(F.desc("after_stop"), "node", "product", "product_version")
