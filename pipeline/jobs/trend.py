"""Lines through the depths of queues, and what they say about the time until a queue is full.

Each row is weighted by the time that it covers, as a quiet queue writes few rows; within the interval of a row the
depth is taken for constant. A line says something only if it fits well, and no further ahead than the time that it
rests on allows.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from pipeline.jobs.queues import backlog, is_full, whole_bytes

WINDOW_US = 600_000_000
SAMPLES_LEAST = 5
FIT_LEAST = 0.8
"""R² of a line that says something (`python -m load.forecast_days`)."""
REACH = 6.0
"""A line foresees at most this many times the time that it rests on: an hour from ten minutes."""
FLAT = 1e-12
"""A variance that is this share of the mean square, or less, is none but the error of rounding."""


def points(depth: DataFrame, begin: Expression, end: Expression) -> DataFrame:
    """Return the points for the lines of a window (µs since 1970): `depth`, `depth_bytes`, `is_full`, `weight`, the
    seconds of the window that a row covers, and `t`, the middle of these, in seconds from the end of the window.
    """
    weight = F.greatest(F.least(F.col("interval_ms") / 1e3, (F.col("ts") - begin) / 1e6), F.lit(0.0))
    columns = {"weight": weight, "is_full": is_full(), "depth": backlog(), "depth_bytes": whole_bytes()}
    rows = depth.withColumns(columns)
    return rows.withColumn("t", (F.col("ts") - end) / 1e6 - F.col("weight") / 2)


def lines(groups: GroupedData) -> DataFrame:
    """Fit a line to the points of each group, and keep the last row's values. `covered`: seconds that rows cover;
    `was_full`: at any row.
    """
    last = ["shard", "depth", "depth_bytes", "stop_count", "stop_bytes"]
    weight, t = F.col("weight"), F.col("t")
    sums = {"w": weight, "t": weight * t, "tt": weight * t * t + weight * weight * weight / 12}
    for name in ("depth", "depth_bytes"):
        y = F.col(name).cast("double")
        sums |= {f"{name}_y": weight * y, f"{name}_ty": weight * t * y, f"{name}_yy": weight * y * y}
    summed = groups.agg(
        F.max_by(F.struct(*last, F.col("ts").alias("at")), "ts").alias("last"),
        F.count(F.lit(1)).alias("samples"),
        F.max("is_full").alias("was_full"),
        *(F.sum(column).alias(f"sum_{name}") for name, column in sums.items()),
    )
    found = {f"{kind}_{mark}": column for mark, name in (("count", "depth"), ("bytes", "depth_bytes"))
             for kind, column in zip(("growth", "fit"), _line(name), strict=True)}  # fmt: skip
    return summed.withColumns(found).withColumnsRenamed({"growth_count": "growth", "sum_w": "covered"})


def forecast(lines: DataFrame, samples_least: int, fit_least: float = FIT_LEAST) -> DataFrame:
    """Return the lines with `seconds` until their queue is full (null: not foreseen), the mark that it reaches, and
    `extrapolated`: the seconds by the line, whatever it is worth (null: it does not rise).
    """
    line = {
        "line_count": _seconds("stop_count", "depth", "growth"),
        "line_bytes": _seconds("stop_bytes", "depth_bytes", "growth_bytes"),
    }
    enough = F.col("samples") >= samples_least
    foreseen = {
        f"by_{mark}": F.when(
            (F.col(f"line_{mark}") == 0)
            | (enough & (F.col(f"fit_{mark}") >= fit_least) & (F.col(f"line_{mark}") <= F.col("covered") * REACH)),
            F.col(f"line_{mark}"),
        )
        for mark in ("count", "bytes")
    }
    result = lines.select("*", "last.*").withColumns(line).withColumns(foreseen)
    first = F.coalesce("by_count", F.lit(float("inf"))) <= F.coalesce("by_bytes", F.lit(float("inf")))
    result = result.withColumns(
        {
            "seconds": F.least("by_count", "by_bytes"),
            "extrapolated": F.least("line_count", "line_bytes"),
            "full_by": F.when(first, "count").otherwise("bytes"),
        }
    )
    fit = F.when(F.col("full_by") == "count", F.col("fit_count")).otherwise(F.col("fit_bytes"))
    return result.withColumn("fit", F.when(F.col("seconds") > 0, fit))


def _line(name: str) -> tuple[Expression, Expression]:
    """Return slope and R² of the line through the depths `name`, by least squares; null where there is none."""
    w, t, tt = (F.col(f"sum_{each}") for each in ("w", "t", "tt"))
    y, ty, yy = (F.col(f"sum_{name}_{each}") for each in ("y", "ty", "yy"))
    in_time, in_depth, both = w * tt - t * t, w * yy - y * y, w * ty - t * y
    varies = in_depth > w * yy * FLAT
    return F.try_divide(both, in_time), F.when(varies, F.try_divide(both * both, in_time * in_depth))


def _seconds(stop: str, now: str, slope: str) -> Expression:
    """Return the seconds until the line through `now` reaches the mark `stop`; null if it does not."""
    room = F.col(stop) - F.col(now)
    rises = F.when(F.col(slope) > 0, room / F.col(slope))
    return F.when(F.col(stop) > 0, F.when(room <= 0, F.lit(0.0)).otherwise(rises))
