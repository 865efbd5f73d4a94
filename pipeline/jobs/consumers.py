"""Slow and dead consumers, hostile subscribers: queues whose consumers do harm."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.schema import shaped

TABLE = Table(
    "consumers",
    "Queues whose consumers do not do what they are there for; those that have held producers longest first. The first "
    "verdict that fits counts.",
    (
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("verdict", "string", "", "`hostile`: nothing was ever taken from it, and it held producers or "
               "dropped messages; `dead`: consumers are there and took nothing while there was something; `looping`: "
               "most that is delivered was delivered before; `forgotten`: no consumer while there was something; "
               "`stuck`: as `dead`, but only for some time; `slow`: they took less than came, and the queue grew"),
        Column("consumers", "int", "consumers", "the most that were there"),
        Column("depth", "bigint", "messages", "ready and unacked, at the end"),
        Column("growth", "bigint", "messages", "of that since the beginning"),
        Column("published", "bigint", "messages", "enqueued"),
        Column("acked", "bigint", "messages", "acknowledged"),
        Column("redelivered", "bigint", "messages", "delivered again"),
        Column("dropped", "bigint", "messages", "gone otherwise"),
        Column("alone_ms", "bigint", "ms", "there was something, and no consumer"),
        Column("stuck_ms", "bigint", "ms", "there was something and a consumer, and nothing was delivered or acked"),
        Column("stopped_ms", "bigint", "ms", "it held producers"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """`idle_ms`: for how long nothing is taken before that counts; `looping`: share of redeliveries, of at least
    `looping_least` deliveries; `slow`: share of what came that consumers took.
    """

    idle_ms: int = 60_000
    looping: float = 0.5
    looping_least: int = 100
    slow: float = 0.95


def consumers(queues: DataFrame, limits: Limits) -> DataFrame:
    """`queues`: of `pipeline.jobs.queues`."""
    ends = queues.withColumns({"depth": F.col("last.depth"), "growth": F.col("last.depth") - F.col("first_depth")})
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
    told = ends.withColumn("verdict", verdict).where(F.col("verdict").isNotNull())
    return shaped(told, TABLE).orderBy(F.desc("stopped_ms"), F.desc("depth"), "vhost", "queue")
