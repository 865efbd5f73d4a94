"""Harmful consumers: slow or dead ones, and hostile subscribers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.queues import PLACE
from pipeline.schema import shaped

TABLE = Table(
    "consumers",
    "Queues whose consumers fail them; those that held producers longest come first. The first verdict to fit counts. "
    "Delay queues have no consumers and are left out.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("verdict", "string", "", "`hostile`: nothing was ever delivered or acked, and the queue held producers "
               "or dropped messages; `dead`: there were messages and consumers, and nothing was ever acked; `looping`: "
               "most deliveries were redeliveries; `forgotten`: there were messages and no consumer; `stuck`: there "
               "were messages and consumers, and for some time nothing was delivered or acked; `slow`: consumers acked "
               "less than was published, and the queue grew"),
        Column("consumers", "int", "consumers", "greatest number of consumers"),
        Column("depth", "bigint", "messages", "ready and unacked, at the end"),
        Column("growth", "bigint", "messages", "growth of the depth since the beginning"),
        Column("published", "bigint", "messages", "enqueued"),
        Column("acked", "bigint", "messages", "acknowledged"),
        Column("redelivered", "bigint", "messages", "delivered again"),
        Column("dropped", "bigint", "messages", "removed otherwise"),
        Column("alone_ms", "bigint", "ms", "time with messages and no consumer"),
        Column("stuck_ms", "bigint", "ms", "time with messages and a consumer, and nothing delivered or acked"),
        Column("stopped_ms", "bigint", "ms", "time for which the queue held producers"),
    ),
)  # fmt: skip


DELAY_QUEUES = "amq.delayed."
"""The beginning of the names of delay queues (router/model/delaying.py): nobody consumes from them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`idle_ms`: how long a queue must be stuck or without a consumer to count; `looping`: share of redeliveries, of at
    least `looping_least` deliveries; `slow`: share of published messages that consumers acked.
    """

    idle_ms: int = 60_000
    looping: float = 0.5
    looping_least: int = 100
    slow: float = 0.95


def consumers(queues: DataFrame, limits: Limits) -> DataFrame:
    """Judge the consumers of each queue; `queues` comes from `pipeline.jobs.queues`."""
    consumed = queues.where(~F.col("queue").startswith(DELAY_QUEUES))
    ends = consumed.withColumns({"depth": F.col("last.depth"), "growth": F.col("last.depth") - F.col("first_depth")})
    untouched = (F.col("acked") == 0) & (F.col("delivered") == 0)
    long_stuck, long_alone = (F.col(name) >= limits.idle_ms for name in ("stuck_ms", "alone_ms"))
    verdict = (
        F.when(untouched & ((F.col("stopped_ms") > 0) | (F.col("dropped") > 0)), "hostile")
        .when(long_stuck & (F.col("acked") == 0), "dead")
        .when(
            (F.col("delivered") >= limits.looping_least) & (F.col("redelivered") > limits.looping * F.col("delivered")),
            "looping",
        )
        .when(long_alone, "forgotten")
        .when(long_stuck, "stuck")
        .when(
            (F.col("growth") > 0) & (F.col("consumers") > 0) & (F.col("acked") < limits.slow * F.col("published")),
            "slow",
        )
    )
    result = ends.withColumn("verdict", verdict).where(F.col("verdict").isNotNull())
    return shaped(result, TABLE).orderBy(F.desc("stopped_ms"), F.desc("depth"), *PLACE)
