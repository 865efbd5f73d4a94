"""The back-test counts what came true, by hand."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.backtest import Record, backtest, records, summary
from pipeline.jobs.forecasts import ALERT, HOUR
from tests.pipeline.day import SINCE, Day
from tests.pipeline.tables import Row, frame

MINUTE = 60_000_000


def rows(day: Day, queue: str, depths: list[int]) -> list[Row]:
    """Return a row a minute."""
    like = {**day.depth[0], "queue": queue, "unacked": 0, "interval_ms": 60_000, "stop_count": 1_000, "stop_bytes": 0}
    return [{**like, "ts": SINCE + (n + 1) * MINUTE - 1, "ready": ready} for n, ready in enumerate(depths)]


def test_what_came_true(spark: SparkSession, day: Day) -> None:
    """Both rise by 10 a minute for half an hour. One goes on and is full after 100 minutes; the other is drained."""
    fills = [10 * n for n in range(120)]
    drained = [10 * n if n < 30 else 0 for n in range(120)]
    depth = frame(spark, DEPTH, [*rows(day, "fills", fills), *rows(day, "drained", drained)])
    # An hour of growth at 600 an hour: at 40 and 50 minutes "fills" is within an hour of its mark, "drained" never is.
    assert records(backtest(depth, SINCE, SINCE + 120 * MINUTE, HOUR).collect()) == [Record(0.9, True, 2, 2)]
    low = [{**row, "stop_count": 500} for row in (*rows(day, "fills", fills), *rows(day, "drained", drained))]
    # With marks of 500 both are within an hour of it at 10, 20 and 30 minutes, and only "fills" is at 40 and 50.
    assert records(backtest(frame(spark, DEPTH, low), SINCE, SINCE + 120 * MINUTE, HOUR).collect()) == [
        Record(0.9, True, 8, 5)
    ]


def test_a_queue_whose_forecasts_were_wrong_is_not_trusted(spark: SparkSession, day: Day) -> None:
    """It rises for half an hour and is drained, eight times. A forecast is judged an hour later."""
    depth = frame(spark, DEPTH, rows(day, "batches", [25 * (n % 30) for n in range(240)]))
    trusted, wrong = (
        [
            each
            for each in records(backtest(depth, SINCE, SINCE + 240 * MINUTE, HOUR).collect())
            if each.trusted == trust
        ]
        for trust in (True, False)
    )
    assert sum(each.true for each in (*trusted, *wrong)) == 0
    assert sum(each.forecasts for each in trusted) == 9  # those of the first 100 minutes
    assert sum(each.forecasts for each in wrong) == 9


def test_alerts_foresee_ten_minutes_and_have_no_record(spark: SparkSession, day: Day) -> None:
    """ "fills" rises by 10 every 10 seconds for an hour. Every 10 minutes "batches" does for 2 minutes, to no avail."""
    like = {**day.depth[0], "unacked": 0, "interval_ms": 10_000, "stop_bytes": 0}
    fills = [{**like, "queue": "fills", "ready": 10 * n, "stop_count": 3_000} for n in range(360)]
    batches = [{**like, "queue": "batches", "ready": 10 * max(n % 60 - 48, 0), "stop_count": 300} for n in range(360)]
    step = MINUTE // 6
    depth = [{**row, "ts": SINCE + (n + 1) * step - 1} for each in (fills, batches) for n, row in enumerate(each)]
    found = records(backtest(frame(spark, DEPTH, depth), SINCE, SINCE + 60 * MINUTE, ALERT).collect())
    # "fills" is full after 50 minutes: foreseen at the ends of the windows from 40 to 48 minutes. "batches" rises in
    # the last window of each 10 minutes, and the 10 minutes after that are over for five of six.
    assert found == [Record(0.9, None, 10, 5)]
    assert str(found[0]) == "fit 0.9 to 1.0: 10 forecasts, 50% true"


def test_shares_in_one_line() -> None:
    found = [Record(0.3, True, 10, 4), Record(0.8, True, 50, 40), Record(0.9, True, 50, 45), Record(0.9, False, 20, 5)]
    assert summary(found, HOUR) == (
        "shown: 100 forecasts, 85% true; left out for their fit: 10 forecasts, 40% true; "
        "for their record: 20 forecasts, 25% true"
    )
    assert summary([], ALERT) == "shown: no forecasts; left out for their fit: no forecasts"
    assert str(found[3]) == "fit 0.9 to 1.0, mostly wrong before: 20 forecasts, 25% true"
