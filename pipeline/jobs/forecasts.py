"""Forecasts of a recorded range, and whether they came true.

The range is cut into windows. At the end of each, every queue is forecast, whatever the fit of its line; then it is
looked up whether the queue was full at any time of the next hour. Queues that were full within the window are left
out: they say nothing about lines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.jobs import trend
from pipeline.jobs.queues import PLACE, backlog, whole_bytes

WINDOWS_AHEAD = 6
"""How many windows a forecast may look ahead: an hour of windows of ten minutes."""


def judged(depth: DataFrame, since: int, until: int) -> DataFrame:
    """Return a row for each forecast "full within an hour" whose hour is over: node, vhost, queue, `slot` (number of
    the window), `fit`, and `came_true` (1 or 0). `depth` has rows of the table from `since` to `until` (µs since 1970).
    """
    window = trend.WINDOW_US
    over = (F.col("stop_count") > 0) & (backlog() >= F.col("stop_count"))
    over_bytes = (F.col("stop_bytes") > 0) & (whole_bytes() >= F.col("stop_bytes"))
    marked = depth.withColumns(
        {"slot": F.expr(f"(ts - {since}) div {window}"), "is_full": (over | over_bytes).cast("int")}
    )
    begin = F.col("slot") * window + since
    groups = trend.points(marked, begin, begin + window).groupBy(*PLACE, "slot")
    foreseen = trend.forecast(trend.lines(groups), trend.SAMPLES_LEAST, fit_least=0.0)
    later = Window.partitionBy(*PLACE).orderBy("slot").rangeBetween(1, WINDOWS_AHEAD)
    full = marked.groupBy(*PLACE, "slot").agg(F.max("is_full").alias("was_full"))
    known = full.withColumn("came_true", F.coalesce(F.max("was_full").over(later), F.lit(0)))
    is_over = F.col("slot") + 1 + WINDOWS_AHEAD <= (until - since) // window
    chosen = (F.col("was_full") == 0) & (F.col("seconds") <= WINDOWS_AHEAD * window / 1e6) & is_over
    return foreseen.join(known, [*PLACE, "slot"]).where(chosen).select(*PLACE, "slot", "fit", "came_true")
