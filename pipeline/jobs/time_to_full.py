"""Time to full: when growing queues will reach their stop marks."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.queues import PLACE, backlog, whole_bytes
from pipeline.schema import shaped

WINDOW_US = 600_000_000
SAMPLES_LEAST = 5

TABLE = Table(
    "time_to_full",
    "Queues that are full, or will be by a straight line through their depths; the soonest first.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("shard", "int", "", "shard of the queue"),
        Column("depth", "bigint", "messages", "ready and unacked, last seen"),
        Column("depth_bytes", "bigint", "bytes", "size of the whole messages, which counts against the mark"),
        Column("stop_count", "bigint", "messages", "stop mark; 0: none"),
        Column("stop_bytes", "bigint", "bytes", "stop mark; 0: none"),
        Column("growth", "double", "messages a second", "slope of the line", nullable=True),
        Column("growth_bytes", "double", "bytes a second", "slope of the line through the bytes", nullable=True),
        Column("seconds", "double", "s", "time until the queue is full; 0: it is full"),
        Column("full_by", "string", "", "`count` or `bytes`: the mark that is reached first"),
        Column("fit", "double", "", "fit of the line: R² (1: exact); null if the queue is full", nullable=True),
        Column("samples", "bigint", "", "rows to which the line is fitted"),
    ),
)  # fmt: skip


def time_to_full(
    depth: DataFrame, at: int, window_us: int = WINDOW_US, samples_least: int = SAMPLES_LEAST
) -> DataFrame:
    """Forecast queues by rows of `depth` in the `window_us` before `at` (µs). A queue that is not full is left out with
    fewer than `samples_least` rows or a line that does not rise.
    """
    recent = depth.where((F.col("ts") >= at - window_us) & (F.col("ts") < at))
    result = forecast(lines(points(recent, at).groupBy(*PLACE)), samples_least)
    return shaped(result.where(F.col("seconds").isNotNull()), TABLE).orderBy("seconds", *PLACE)


def points(depth: DataFrame, at: int) -> DataFrame:
    """Return the points for the lines: `depth`, `depth_bytes`, and `t`, seconds from `at`. `at` should be near: squares
    of µs since 1970 lose all digits.
    """
    return depth.withColumns(
        {
            "t": (F.col("ts") - at) / 1e6,
            "depth": backlog(),
            "depth_bytes": whole_bytes(),
        }
    )


def lines(groups: GroupedData) -> DataFrame:
    """Fit a line to the points of each group, and keep the last row's values."""
    last = ["shard", "depth", "depth_bytes", "stop_count", "stop_bytes"]
    return groups.agg(
        F.max_by(F.struct(*last, F.col("ts").alias("at")), "ts").alias("last"),
        F.regr_slope("depth", "t").alias("growth"),
        F.regr_slope("depth_bytes", "t").alias("growth_bytes"),
        F.regr_r2("depth", "t").alias("fit_count"),
        F.regr_r2("depth_bytes", "t").alias("fit_bytes"),
        F.count(F.lit(1)).alias("samples"),
    )


def forecast(lines: DataFrame, samples_least: int) -> DataFrame:
    """Return the lines with `seconds` until their queue is full (null: not foreseen), and the mark that it reaches."""
    result = lines.select("*", "last.*").withColumns(
        {
            "by_count": _seconds("stop_count", "depth", "growth", samples_least),
            "by_bytes": _seconds("stop_bytes", "depth_bytes", "growth_bytes", samples_least),
        }
    )
    first = F.coalesce("by_count", F.lit(float("inf"))) <= F.coalesce("by_bytes", F.lit(float("inf")))
    result = result.withColumns(
        {
            "seconds": F.least("by_count", "by_bytes"),
            "full_by": F.when(first, "count").otherwise("bytes"),
        }
    )
    fit = F.when(F.col("full_by") == "count", F.col("fit_count")).otherwise(F.col("fit_bytes"))
    return result.withColumn("fit", F.when(F.col("seconds") > 0, fit))


def _seconds(stop: str, now: str, slope: str, samples_least: int) -> Expression:
    grows = (F.col(slope) > 0) & (F.col("samples") >= samples_least)
    room = F.col(stop) - F.col(now)
    return F.when(F.col(stop) > 0, F.when(room <= 0, F.lit(0.0)).when(grows, room / F.col(slope)))
