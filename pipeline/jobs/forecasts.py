"""Forecasts of a recorded range, and whether they came true.

The range is cut into windows. At the end of each, every queue is forecast, whatever the fit of its line; then it is
looked up whether the queue was full in time. Queues that were full within the window are left out: they say nothing
about lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.jobs import trend
from pipeline.jobs.queues import PLACE


@dataclass(frozen=True, slots=True)
class Horizon:
    """What is foreseen: that a queue will be full within the next `ahead` windows of `window_us`. `by_record`: queues
    whose earlier forecasts were mostly wrong are left out.
    """

    window_us: int
    ahead: int
    by_record: bool


HOUR = Horizon(trend.WINDOW_US, 6, by_record=True)
"""The report: an hour by ten minutes."""
ALERT = Horizon(120_000_000, 5, by_record=False)
"""An alert: ten minutes by two minutes."""


def judged(depth: DataFrame, since: int, until: int, horizon: Horizon = HOUR) -> DataFrame:
    """Return a row for each forecast "full in time" whose time is over: node, vhost, queue, `slot` (number of the
    window), `fit`, and `came_true` (1 or 0). `depth` has rows of the table from `since` to `until` (µs since 1970).
    """
    window, ahead = horizon.window_us, horizon.ahead
    numbered = depth.withColumn("slot", F.expr(f"(ts - {since}) div {window}"))
    begin = F.col("slot") * window + since
    groups = trend.points(numbered, begin, begin + window).groupBy(*PLACE, "slot")
    foreseen = trend.forecast(trend.lines(groups), trend.SAMPLES_LEAST, fit_least=0.0)
    later = Window.partitionBy(*PLACE).orderBy("slot").rangeBetween(1, ahead)
    was_full = F.max(F.col("was_full").cast("int")).over(later)
    known = foreseen.withColumn("came_true", F.coalesce(was_full, F.lit(0)))
    is_over = F.col("slot") + 1 + ahead <= (until - since) // window
    chosen = ~F.col("was_full") & (F.col("seconds") <= ahead * window / 1e6) & is_over
    return known.where(chosen).select(*PLACE, "slot", "fit", "came_true")
