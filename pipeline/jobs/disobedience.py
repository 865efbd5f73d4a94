"""Disobedience: which clients publish on after they were told to stop."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.held import UNKNOWN
from pipeline.schema import shaped

TABLE = Table(
    "disobedience",
    "What clients did when they were told to stop, by product and version; who published most after it first. Episodes "
    "that are open or lost are not counted: how they ended is not known.",
    (
        Column("product", "string", "", f"what the client calls itself; `{UNKNOWN}` if it does not say"),
        Column(
            "product_version", "string", "", f"likewise; `{UNKNOWN}` too if its connection was opened before the range"
        ),
        Column("episodes", "bigint", "", "how often it was held"),
        Column("told", "bigint", "", "of these, told by Channel.Flow and answered"),
        Column("obeyed", "bigint", "", "of those told, those in which it published no more"),
        Column("after_stop", "bigint", "messages", "publishes that came after it was told"),
        Column("p99_after_stop", "double", "messages", "99th percentile of that in an episode"),
    ),
)


def disobedience(episodes: DataFrame, connections: DataFrame) -> DataFrame:
    """`episodes`: of `pipeline.jobs.episodes`; `connections`: rows of the table `connection`."""
    versions = connections.groupBy("node", "epoch", "connection").agg(
        F.max_by("product_version", F.struct("ts", "seq")).alias("product_version")
    )
    known = episodes.where(~F.col("outcome").isin("open", "lost")).join(
        versions, ["node", "epoch", "connection"], "left"
    )
    keys = [F.coalesce(name, F.lit(UNKNOWN)).alias(name) for name in ("product", "product_version")]
    grouped = known.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("episodes"),
        F.count("obeyed").alias("told"),
        F.count_if("obeyed").alias("obeyed"),
        F.sum(F.coalesce("after_stop", F.lit(0))).alias("after_stop"),
        F.percentile(F.coalesce("after_stop", F.lit(0)), 0.99).alias("p99_after_stop"),
    )
    return shaped(grouped, TABLE).orderBy(F.desc("after_stop"), "product", "product_version")
