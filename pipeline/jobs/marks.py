"""Recommended marks: where a queue should stop and resume its producers, and the rule that decided.

- *overshoot*: messages in flight when producers are told to stop must fit
  between the stop mark and the limit, with a margin for more than was seen;
- *queueing time*: a backlog beyond what consumers drain in the longest
  acceptable wait helps no one;
- *never dry*: the messages left at the resume mark must last until the first
  new message arrives.
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
    "Marks for queues whose consumers were seen at work, in messages, and in bytes for queues with such marks; those "
    "that held producers longest come first. The limit is derived from the present stop mark.",
    (
        Column("node", "string", "", "name of the node"),
        Column("vhost", "string", "", "virtual host of the queue"),
        Column("queue", "string", "", "name of the queue"),
        Column("stop_count", "bigint", "messages", "recommended stop mark"),
        Column("resume_count", "bigint", "messages", "recommended resume mark"),
        Column("stop_bytes", "bigint", "bytes", "recommended stop mark", nullable=True),
        Column("resume_bytes", "bigint", "bytes", "recommended resume mark", nullable=True),
        Column("stop_rule", "string", "", "`overshoot` or `queueing time`"),
        Column("resume_rule", "string", "", "`share` (of the stop mark), `never dry`, or `stop mark`: the resume mark "
               "should be above the stop mark, so consumers will run dry"),
        Column("present_stop_count", "bigint", "messages", "stop mark at the end of the range; 0: none"),
        Column("present_resume_count", "bigint", "messages", "resume mark at the end of the range"),
        Column("present_stop_bytes", "bigint", "bytes", "stop mark at the end of the range; 0: none"),
        Column("present_resume_bytes", "bigint", "bytes", "resume mark at the end of the range"),
        Column("drain", "double", "messages a second", "median rate of acks while there was a backlog"),
        Column("overshoot", "bigint", "messages", "depth above the mark for which there must be room, with a margin"),
        Column("overshoot_by", "string", "", "source of `overshoot`: `episodes`: the greatest seen, and its n-th part "
               "after n episodes for a greater one to come; `rates`, if that is more: surplus of publishes over acks "
               "(99th percentile) in the time that producers take to stop"),
        Column("overshoot_seen", "bigint", "messages", "greatest depth above the mark in an episode; null: none was "
               "seen", nullable=True),
        Column("message_bytes", "double", "bytes", "mean size of the whole messages in the queue", nullable=True),
        Column("stopped_ms", "bigint", "ms", "time for which the queue held producers"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of the marks. Times are in seconds.

    `longest_wait_s`: how long a message may wait in a queue; `refill_s`: time from a resume to the first new message;
    `reaction_s`: time from a stop to the last message; `stop_percent`: present stop
    marks as a percentage of their limits; `resume_percent`: resume marks as a percentage of the new stop marks, unless
    a rule asks for more.
    """

    longest_wait_s: float = 60.0
    refill_s: float = 0.25
    reaction_s: float = 0.5
    stop_percent: int = 80
    resume_percent: int = 70


def marks(queues: DataFrame, episodes: DataFrame, goals: Goals) -> DataFrame:
    """Recommend marks. `queues` comes from `pipeline.jobs.queues`, `episodes` from `pipeline.jobs.episodes` for the
    same range.
    """
    present = [F.col(f"last.{name}").alias(f"present_{name}") for name in PRESENT]
    drained = queues.where(F.col("drain") > 0).select("*", *present)
    facts = drained.join(_peaks(episodes), [*PLACE], "left")
    with_margin = F.ceil(F.col("overshoot_seen") * (1 + 1 / F.col("peaks")))
    by_rates = F.ceil(F.greatest(F.col("net_p99"), F.lit(0.0)) * goals.reaction_s)
    facts = facts.withColumns(
        {
            "overshoot": F.greatest(with_margin, by_rates).cast("bigint"),
            "overshoot_by": F.when(with_margin >= by_rates, "episodes").otherwise("rates"),
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
    """Return the greatest overshoot of each queue in the episodes that its count caused, and their number."""
    counted = episodes.where((F.col("cause") == "count") & F.col("queue").isNotNull() & F.col("peak_depth").isNotNull())
    over = F.greatest(F.col("peak_depth") - F.col("mark"), F.lit(0))
    return counted.groupBy(*PLACE).agg(F.max(over).alias("overshoot_seen"), F.count(F.lit(1)).alias("peaks"))


def _in_bytes(name: str, goals: Goals) -> Expression:
    """Return the mark in bytes: the mark in messages at their mean size, within the limit in bytes less the
    overshoot.
    """
    size = F.col("message_bytes")
    limit = F.col("present_stop_bytes") * 100 / goals.stop_percent - F.col("overshoot") * size
    share = 1.0 if name == "stop" else goals.resume_percent / 100
    mark = F.least(F.col(f"{name}_count") * size, F.greatest(limit, F.lit(1.0)) * share)
    return F.when(F.col("present_stop_bytes") > 0, F.floor(mark).cast("bigint"))
