"""Facts of each queue that several answers use, computed in one pass over the rows of depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

PLACE = ("node", "vhost", "queue")
"""The key of a queue: nodes may have queues of the same name."""
PRESENT = ("stop_count", "resume_count", "stop_bytes", "resume_bytes")
STATE = ("shard", "depth", "bytes", *PRESENT)
COUNTED = ("published", "delivered", "acked", "redelivered", "dropped")


def backlog() -> Column:
    """Return the messages in a row of depth, ready and unacked."""
    return F.col("ready") + F.col("unacked")


def whole_bytes() -> Column:
    """Return the size of a row's messages as marks in bytes count it. A node that writes no `whole_bytes` counts only
    bodies.
    """
    return F.coalesce(F.col("whole_bytes"), F.col("ready_bytes") + F.col("unacked_bytes"))


def is_full() -> Column:
    """Return whether a row of depth is at a stop mark, or above."""
    by_count = (F.col("stop_count") > 0) & (backlog() >= F.col("stop_count"))
    return by_count | ((F.col("stop_bytes") > 0) & (whole_bytes() >= F.col("stop_bytes")))


def queues(depth: DataFrame) -> DataFrame:
    """Return a row for each queue, in no order. `depth` has rows of the table.

    - node, vhost, queue; `last`: shard, depth, bytes and the four marks of the queue's last row;
    - messages: `first_depth`; `peak_depth`; sums `published`, `delivered`, `acked`, `redelivered`, `dropped`;
    - bytes of whole messages: `peak_bytes`; `message_bytes` (mean size, by rows that have `whole_bytes`, else of
      bodies; null: the queue was always empty);
    - consumers: `consumers`, the greatest number;
    - messages a second, null without such rows: `drain`, the median rate of acks while consumers had messages;
      `net_p99`, 99th percentile of the surplus of publishes over acks;
    - ms: `covered_ms` by rows; `stopped_ms`: the queue held producers; `alone_ms`: messages and no consumer;
      `stuck_ms`: messages and a consumer, and nothing was delivered or acked.
    """
    return _rows(depth).groupBy(*PLACE).agg(
        F.max_by("state", "order").alias("last"),
        F.min_by("depth", "order").alias("first_depth"),
        F.max("depth").alias("peak_depth"),
        F.max("bytes").alias("peak_bytes"),
        F.max("consumers").alias("consumers"),
        *(F.sum(f"n_{name}").alias(name) for name in COUNTED),
        F.percentile("drain", 0.5).alias("drain"),
        F.percentile("net", 0.99).alias("net_p99"),
        F.coalesce(
            F.try_divide(F.sum("whole_bytes"), F.sum("sized")), F.try_divide(F.sum("bytes"), F.sum("depth"))
        ).alias("message_bytes"),
        *(F.sum(f"{name}_ms").alias(f"{name}_ms") for name in ("covered", "stopped", "alone", "stuck")),
    )  # fmt: skip


def queues_of_summaries(summaries: DataFrame) -> DataFrame:
    """Return the facts of each queue by its summaries (`pipeline.summaries.queues`): the columns of `queues`, those of
    `pipeline.jobs.rebalance_inputs.with_rates`, and `peak_before`. Percentiles are those of rounded values.
    """
    exact = summaries.groupBy(*PLACE).agg(
        F.max_by(F.struct(*(F.col(f"last.{name}") for name in STATE)), F.struct("last.ts", "last.seq")).alias("last"),
        F.min_by("first.depth", F.struct("first.ts", "first.seq")).alias("first_depth"),
        *(F.max(name).alias(name) for name in ("peak_depth", "peak_before", "peak_bytes", "consumers")),
        *(F.sum(f"n_{name}").alias(name) for name in COUNTED),
        F.coalesce(
            F.try_divide(F.sum("sized_bytes"), F.sum("sized")), F.try_divide(F.sum("depth_bytes"), F.sum("depths"))
        ).alias("message_bytes"),
        *(F.sum(f"{name}_ms").alias(f"{name}_ms") for name in ("covered", "stopped", "alone", "stuck")),
    )
    wanted = {"drain": [0.5], "net": [0.99], "moved": [0.5, 0.95], "moved_bytes": [0.5, 0.95]}
    return exact.join(_percentiles(summaries, wanted), [*PLACE], "left").withColumns(
        {"drain": F.col("drain")[0], "net_p99": F.col("net")[0]}
    )


def _percentiles(summaries: DataFrame, wanted: Mapping[str, Sequence[float]]) -> DataFrame:
    """Return percentiles of distributions of each queue, an array a distribution, by its name."""
    pairs = [F.transform(name, partial(_named, name)) for name in wanted]
    each = summaries.select(*PLACE, F.explode(F.concat(*pairs)).alias("pair")).select(*PLACE, "pair.*")
    return each.groupBy(*PLACE).agg(
        *(
            F.percentile(F.when(F.col("name") == name, F.col("value")), list(shares), F.col("times")).alias(name)
            for name, shares in wanted.items()
        )
    )


def _named(name: str, pair: Column) -> Column:
    return F.struct(F.lit(name).alias("name"), pair["value"].alias("value"), pair["times"].alias("times"))


def _rows(depth: DataFrame) -> DataFrame:
    """Return the summands, a column each: Spark compiles a projection, but interprets expressions within a
    percentile.
    """
    messages, nbytes = backlog(), whole_bytes()
    interval = F.col("interval_ms")
    seconds = interval / 1000
    full, attached = messages > 0, F.col("consumers") > 0
    idle = (F.col("n_acked") == 0) & (F.col("n_delivered") == 0)
    return depth.select(
        *PLACE,
        F.struct("ts", "seq").alias("order"),
        F.struct("shard", messages.alias("depth"), nbytes.alias("bytes"), *PRESENT).alias("state"),
        messages.alias("depth"),
        nbytes.alias("bytes"),
        "whole_bytes",
        F.when(F.col("whole_bytes").isNotNull(), messages).alias("sized"),
        "consumers",
        *(f"n_{name}" for name in COUNTED),
        F.when(full & attached & (interval > 0), F.col("n_acked") / seconds).alias("drain"),
        F.when(interval > 0, (F.col("n_published") - F.col("n_acked")) / seconds).alias("net"),
        interval.alias("covered_ms"),
        F.when(F.col("saturated"), interval).otherwise(0).alias("stopped_ms"),
        F.when(full & ~attached, interval).otherwise(0).alias("alone_ms"),
        F.when(full & attached & idle, interval).otherwise(0).alias("stuck_ms"),
    )
