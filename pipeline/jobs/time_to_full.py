"""Time to full: when growing queues will reach their stop marks.

A queue whose earlier forecasts were mostly wrong, as of one that is drained in batches, is left out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs import trend
from pipeline.jobs.forecasts import judged
from pipeline.jobs.queues import PLACE
from pipeline.schema import shaped

RECORD_LEAST = 3
"""A record of fewer forecasts is none."""
GONE_US = 120_000_000
"""A queue with messages has a row every ten seconds, in files of `telemetry.file_seconds`: one whose last row is this
much older than its node's is gone.
"""

TABLE = Table(
    "time_to_full",
    "Queues that are full, or will be by a straight line through their depths that fits well; the soonest first.",
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
        Column("forecasts", "bigint", "", "earlier times in the last day of the range at which the queue seemed to be "
               "full within an hour"),
        Column("came_true", "bigint", "", "how many of these came true"),
    ),
)  # fmt: skip


def time_to_full(depth: DataFrame, since: int, at: int) -> DataFrame:
    """Forecast queues by the rows of `depth` in the last window before `at`; `depth` covers the time from `since` (µs
    since 1970).

    A queue that is gone is left out. So is one that is not full with too few rows, with a line that does not rise, does
    not fit or would have to reach too far (`pipeline.jobs.trend`), or with a record in which most forecasts did not
    come true.
    """
    begin = at - trend.WINDOW_US
    recent = depth.where((F.col("ts") >= begin) & (F.col("ts") < at))
    groups = trend.points(recent, F.lit(begin), F.lit(at)).groupBy(*PLACE)
    newest = recent.groupBy("node").agg(F.max("ts").alias("newest"))
    lines = trend.lines(groups).join(newest, "node").where(F.col("last.at") + GONE_US >= F.col("newest"))
    found = trend.forecast(lines, trend.SAMPLES_LEAST).where(F.col("seconds").isNotNull())
    growing = found.where(F.col("seconds") > 0).select(*PLACE)
    own = depth.join(F.broadcast(growing), [*PLACE], "left_semi")
    record = (
        judged(own, since, at)
        .where(F.col("fit") >= trend.FIT_LEAST)
        .groupBy(*PLACE)
        .agg(F.count(F.lit(1)).alias("forecasts"), F.sum("came_true").alias("came_true"))
    )
    result = found.join(record, [*PLACE], "left").fillna(0, ["forecasts", "came_true"])
    wrong = (F.col("forecasts") >= RECORD_LEAST) & (F.col("came_true") * 2 < F.col("forecasts"))
    return shaped(result.where((F.col("seconds") == 0) | ~wrong), TABLE).orderBy("seconds", *PLACE)
