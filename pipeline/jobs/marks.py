"""Recommended marks: where a queue ought to stop and resume its producers, and the rule that decided.

- *overshoot*: what is under way when producers are told must fit between the stop mark and the limit.
- *queueing time*: what the consumers drain in the longest time that a message may wait is the most that helps anybody.
- *never dry*: what is left at the resume mark must last until the first new message is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.telemetry.schema import Column, Table
from pipeline.jobs.queues import PLACE, PRESENT
from pipeline.schema import shaped

TABLE = Table(
    "marks",
    "Marks for queues whose consumers have been seen at work, in messages and, where a queue has marks in bytes, in "
    "bytes; those that have held producers longest first. The limit is taken from the present stop mark.",
    (
        Column("vhost", "string", "", "its virtual host"),
        Column("queue", "string", "", "its name"),
        Column("stop_count", "bigint", "messages", "recommended stop mark"),
        Column("resume_count", "bigint", "messages", "recommended resume mark"),
        Column("stop_bytes", "bigint", "bytes", "recommended stop mark", nullable=True),
        Column("resume_bytes", "bigint", "bytes", "recommended resume mark", nullable=True),
        Column("stop_rule", "string", "", "`overshoot` or `queueing time`"),
        Column("resume_rule", "string", "", "`share` (of the stop mark), `never dry`, or `stop mark`: it would have to "
               "be above that, so consumers will run dry"),
        Column("present_stop_count", "bigint", "messages", "stop mark at the end of the range; 0: none"),
        Column("present_resume_count", "bigint", "messages", "resume mark then"),
        Column("present_stop_bytes", "bigint", "bytes", "stop mark then; 0: none"),
        Column("present_resume_bytes", "bigint", "bytes", "resume mark then"),
        Column("drain", "double", "messages a second", "median of what was acked while there was a backlog"),
        Column("overshoot", "bigint", "messages", "above the mark: 99th percentile"),
        Column("overshoot_by", "string", "", "`episodes`: peaks that were seen; `rates`: what comes in beyond what "
               "goes out (99th percentile) in the time that producers take to stop"),
        Column("message_bytes", "double", "bytes", "mean of what was in the queue, of whole messages", nullable=True),
        Column("stopped_ms", "bigint", "ms", "for how long it held producers"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goals:
    """What marks are to reach. Times in seconds.

    `longest_wait_s`: how long a message may wait in a queue; `refill_s`: from a resume to the first new message;
    `reaction_s`: from a stop to the last message, for queues that held nobody; `stop_percent`: of the limit that the
    present stop marks are; `resume_percent`: of the new stop mark, where no rule asks for more.
    """

    longest_wait_s: float = 60.0
    refill_s: float = 0.25
    reaction_s: float = 0.5
    stop_percent: int = 80
    resume_percent: int = 70


def marks(queues: DataFrame, episodes: DataFrame, goals: Goals) -> DataFrame:
    """`queues`: of `pipeline.jobs.queues`; `episodes`: of `pipeline.jobs.episodes`, of the same range."""
    present = [F.col(f"last.{name}").alias(f"present_{name}") for name in PRESENT]
    drained = queues.where(F.col("drain") > 0).select("*", *present)
    facts = drained.join(_peaks(episodes), [*PLACE], "left")
    by_rates = F.ceil(F.greatest(F.col("net_p99"), F.lit(0.0)) * goals.reaction_s)
    facts = facts.withColumns(
        {
            "overshoot": F.coalesce(F.ceil("peak_p99"), by_rates).cast("bigint"),
            "overshoot_by": F.when(F.col("peak_p99").isNotNull(), "episodes").otherwise("rates"),
            "by_wait": F.floor(F.col("drain") * goals.longest_wait_s),
            "limit": F.floor(F.col("present_stop_count") * 100 / goals.stop_percent),
        }
    )
    by_limit = F.when(F.col("limit") > 0, F.col("limit") - F.col("overshoot"))
    stop = F.greatest(F.least("by_wait", by_limit), F.lit(1)).cast("bigint")
    facts = facts.withColumns(
        {"stop_rule": F.when(by_limit < F.col("by_wait"), "overshoot").otherwise("queueing time"), "stop_count": stop}
    )
    share = F.floor(F.col("stop_count") * goals.resume_percent / 100)
    dry = F.ceil(F.col("drain") * goals.refill_s)
    rule = F.when(dry > F.col("stop_count"), "stop mark").when(dry > share, "never dry").otherwise("share")
    facts = facts.withColumns(
        {"resume_count": F.least(F.greatest(share, dry), F.col("stop_count")).cast("bigint"), "resume_rule": rule}
    )
    in_bytes = {f"{name}_bytes": _in_bytes(name, goals) for name in ("stop", "resume")}
    return shaped(facts.withColumns(in_bytes), TABLE).orderBy(F.desc("stopped_ms"), *PLACE)


def _peaks(episodes: DataFrame) -> DataFrame:
    """How far above its mark a queue came at most in the episodes that its count caused: 99th percentile."""
    counted = episodes.where((F.col("cause") == "count") & F.col("queue").isNotNull())
    over = F.greatest(F.col("peak_depth") - F.col("mark"), F.lit(0))
    return counted.groupBy(*PLACE).agg(F.percentile(over, 0.99).alias("peak_p99"))


def _in_bytes(name: str, goals: Goals) -> Expression:
    """The mark in bytes: that in messages at their mean size, but within the limit in bytes less the overshoot."""
    size = F.col("message_bytes")
    limit = F.col("present_stop_bytes") * 100 / goals.stop_percent - F.col("overshoot") * size
    share = 1.0 if name == "stop" else goals.resume_percent / 100
    mark = F.least(F.col(f"{name}_count") * size, F.greatest(limit, F.lit(1.0)) * share)
    return F.when(F.col("present_stop_bytes") > 0, F.floor(mark).cast("bigint"))
