"""The back-test of forecasts: how often "full within an hour" of reports, or "full within ten minutes" of alerts, was
true, by the fit of the line, and for reports by the record of the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from pipeline.jobs.forecasts import Horizon, judged
from pipeline.jobs.queues import PLACE
from pipeline.jobs.time_to_full import RECORD_LEAST
from pipeline.jobs.trend import FIT_LEAST

STEP = 0.1
LONG_AGO = -(1 << 30)


@dataclass(frozen=True, slots=True)
class Record:
    """Forecasts by lines with a fit (R²) from `fit` to `fit` + `STEP`: how many, and how many came true. `trusted`:
    those of queues whose earlier forecasts were not mostly wrong; None if that does not matter.
    """

    fit: float
    trusted: bool | None
    forecasts: int
    true: int

    def __str__(self) -> str:
        trust = {True: ", trusted", False: ", mostly wrong before", None: ""}[self.trusted]
        return f"fit {self.fit:.1f} to {self.fit + STEP:.1f}{trust}: {share([self])}"


def backtest(depth: DataFrame, since: int, until: int, horizon: Horizon) -> DataFrame:
    """Return the columns of `Record`. `depth` has rows of the table from `since` to `until` (µs since 1970)."""
    earlier = Window.partitionBy(*PLACE).orderBy("slot").rangeBetween(LONG_AGO, -1 - horizon.ahead)
    good = F.col("fit") >= FIT_LEAST
    count, true = (
        F.coalesce(F.sum(F.when(good, each)).over(earlier), F.lit(0)) for each in (F.lit(1), F.col("came_true"))
    )
    trusted = (count < RECORD_LEAST) | (true * 2 >= count) if horizon.by_record else F.lit(None).cast("boolean")
    step = F.least(F.floor(F.col("fit") / STEP), F.lit(round(1 / STEP) - 1))
    rows = judged(depth, since, until, horizon).select(
        (step * STEP).alias("fit"), trusted.alias("trusted"), "came_true"
    )
    grouped = rows.groupBy("fit", "trusted")
    return grouped.agg(F.count(F.lit(1)).alias("forecasts"), F.sum("came_true").alias("true")).orderBy("fit", "trusted")


def records(rows: Iterable[Row]) -> list[Record]:
    """Return the rows of a back-test as records."""
    return [Record(float(row["fit"]), row["trusted"], int(row["forecasts"]), int(row["true"])) for row in rows]


def share(found: Iterable[Record]) -> str:
    """Return how many forecasts there were, and the share that came true."""
    own = list(found)
    count = sum(each.forecasts for each in own)
    return f"{count:,} forecasts, {sum(each.true for each in own) / count:.0%} true" if count else "no forecasts"


def summary(found: list[Record], horizon: Horizon) -> str:
    """Return one line: the forecasts that are shown, those that are left out for their record or their fit."""
    good = [each for each in found if each.fit >= FIT_LEAST - 1e-9]
    poor = [each for each in found if each.fit < FIT_LEAST - 1e-9]
    wrong = [each for each in good if each.trusted is False]
    lines = [f"shown: {share(each for each in good if each not in wrong)}", f"left out for their fit: {share(poor)}"]
    if horizon.by_record:
        lines.append(f"for their record: {share(wrong)}")
    return "; ".join(lines)
