"""Alerts from files, through Spark's streams, to a real broker."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.telemetry.layout import HOUR_US
from penstock.telemetry.schema import DEPTH
from pipeline.alerts.board import Alert, Board, Limits
from pipeline.alerts.publisher import Publisher
from pipeline.alerts.streams import SLIDES, Alerts, latest_queues, queue_rows, queue_window_s
from pipeline.errors import PipelineError
from pipeline.jobs import trend
from tests.pipeline import live
from tests.pipeline.day import Day
from tests.pipeline.tables import Row, frame
from tests.waiting import wait_for

PATIENCE = 240.0
"""Seconds to wait for results of Spark on a busy machine."""
LIMITS = Limits(full_s=600, hot=1.5, held_s=20)
SECOND = 1_000_000


@contextmanager
def watching(spark: SparkSession, root: Path, publish: Callable[[list[Alert]], None]) -> Iterator[Alerts]:
    alerts = Alerts(spark, str(root), str(root / "checkpoint"), LIMITS, publish, 0.2)
    alerts.start()
    over = threading.Event()
    failed: list[Exception] = []

    def run() -> None:
        try:
            alerts.run(over.is_set)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield alerts
    finally:
        over.set()
        thread.join()
        alerts.stop()
    assert not failed


def depths(day: Day, grows: bool, begin: int) -> list[Row]:
    """Return half a minute of a queue's rows."""
    like = {**day.depth[0], "queue": "orders", "unacked": 0, "unacked_bytes": 0, "ready_bytes": 0, "stop_bytes": 0}
    return [
        {**like, "ts": begin + step * SECOND, "seq": step, "ready": 500 + 10 * step * (1 if grows else -1),
         "whole_bytes": 800 * step, "interval_ms": 1_000,
         "stop_count": 2_000}
        for step in range(30)
    ]  # fmt: skip


def moment() -> int:
    """Return the present time, or one shortly before: all rows of `depths` of 300 s ago lie in one hour, so in one
    file.
    """
    now = time.time_ns() // 1000
    begin = (now - 300 * SECOND) % HOUR_US
    return now - max(begin + 30 * SECOND - HOUR_US, 0)


def loads(day: Day, begin: int) -> list[Row]:
    """Return a minute and a half of the rows of three shards, one of which has most of the load."""
    return [
        {**day.shard[0], "shard": shard, "ts": begin + step * 10 * SECOND, "seq": step, "interval_ms": 10_000,
         "msgs_in": 9_000 if shard == 1 else 100, "msgs_out": 0}
        for step in range(9)
        for shard in range(3)
    ]  # fmt: skip


PHASES = range(0, 20_000, 500)
"""Places of a queue's rows between the boundaries of windows, in ms."""


def forecasts_by_phase(spark: SparkSession, rows: list[Row], board: Board | None = None) -> list[Row]:
    """Return what a board, an empty one unless given, gets of the same rows in all phases: each is a queue."""
    shifted = [
        {**row, "queue": f"{phase:05}", "ts": row["ts"] + phase * 1000, "seq": number}
        for phase in PHASES
        for number, row in enumerate(rows)
    ]
    depth = frame(spark, DEPTH, shifted).withColumn("time", F.timestamp_micros("ts"))
    return sorted(latest_queues(queue_rows(depth, LIMITS), board or Board(LIMITS)), key=lambda row: str(row["queue"]))


@pytest.mark.parametrize("seconds", [10, 30, 90, 300])
def test_an_alert_is_the_same_wherever_windows_begin(spark: SparkSession, day: Day, seconds: int) -> None:
    """The time to full is 4.9 times the time that the rows cover, or 9 minutes."""
    like = {**depths(day, True, 0)[0], "ready_bytes": 0, "whole_bytes": 0, "interval_ms": 1_000}
    room = 5 * min(49 * seconds, 5_400) // 10
    rows = [
        {**like, "ts": day.since + step * SECOND, "ready": 5 * step, "stop_count": 5 * (seconds - 1) + room}
        for step in range(seconds)
    ]
    found = forecasts_by_phase(spark, rows)
    assert [row["queue"] for row in found] == [f"{phase:05}" for phase in PHASES]
    assert [row["seconds"] for row in found] == pytest.approx([room / 5] * len(PHASES), rel=0.02)
    (first, *others) = Board(LIMITS).queues(found)
    assert all(alert.raised and alert.facts == pytest.approx(first.facts, rel=0.01) for alert in others)


def test_a_queue_between_its_marks_was_full_just_now(spark: SparkSession, day: Day) -> None:
    """It is filled to its mark and drained by half, again and again: its alert, raised when it was full, stands."""
    like = {**depths(day, True, 0)[0], "ready_bytes": 0, "whole_bytes": 0, "interval_ms": 1_000, "stop_count": 100}
    rows = [{**like, "ts": day.since + step * SECOND, "ready": 100 - 10 * (step % 6)} for step in range(300)]
    board = Board(LIMITS)
    raised = board.queues(forecasts_by_phase(spark, rows[:-5]))
    assert [alert.raised for alert in raised] == [True] * len(PHASES)
    between = forecasts_by_phase(spark, rows, board)
    assert [(row["depth"], row["seconds"]) for row in between] == [(50, None)] * len(PHASES)
    assert board.queues(between) == []


@pytest.mark.parametrize("full_s", [1, 60, 600, 601, 3_600])
def test_windows_are_long_enough_to_foresee_what_is_asked_for(full_s: float) -> None:
    length = queue_window_s(full_s)
    assert length % SLIDES == 0
    assert length - length // SLIDES >= full_s / trend.REACH


@pytest.mark.broker
@pytest.mark.timeout(1500)
def test_what_goes_wrong_is_told_once_and_once_when_it_is_over(
    spark: SparkSession, day: Day, tmp_path: Path, url: str, pika_channel: BlockingChannel
) -> None:
    now = moment()
    publisher = Publisher(url, "penstock.alerts")
    publisher.check()
    inbox = pika_channel.queue_declare("", exclusive=True).method.queue
    pika_channel.queue_bind(inbox, "penstock.alerts", "#")
    seen: list[dict[str, Any]] = []

    def reported(kind: str, state: str) -> list[dict[str, Any]]:
        while (got := pika_channel.basic_get(inbox, auto_ack=True))[0]:
            seen.append(json.loads(got[2]))
            assert got[0].routing_key.startswith(f"{seen[-1]['kind']}.{seen[-1]['state']}.")
        return [alert for alert in seen if (alert["kind"], alert["state"]) == (kind, state)]

    stop = {**next(row for row in day.flow if row["action"] == "stop"), "ts": now - 60 * SECOND}
    with watching(spark, tmp_path, publisher.publish) as alerts:
        live.write(tmp_path, "depth", depths(day, True, now - 300 * SECOND), "one")
        live.write(tmp_path, "shard", loads(day, now - 300 * SECOND), "one")
        live.write(tmp_path, "flow", [stop], "one")
        (full,) = wait_for(lambda: reported("queue-full", "raised"), PATIENCE, "a queue that fills")
        assert full["subject"] == [day.depth[0]["node"], "/", "orders"]
        assert full["full_in"] == pytest.approx((2_000 - 790) / 10, rel=0.01)
        assert (full["depth"], full["depth_bytes"]) == (790, 800 * 29)
        (hot,) = wait_for(lambda: reported("shard-hot", "raised"), PATIENCE, "a hot shard")
        assert hot["subject"] == [day.shard[0]["node"], "1"]
        (held,) = wait_for(lambda: reported("producer-held", "raised"), PATIENCE, "a producer that is held")
        assert held["subject"][3] == stop["user"]
        with alerts.lock:  # until published alerts are recorded as well: a run that ends in between repeats them
            pass
    # a restart repeats no alert, and goes on
    with watching(spark, tmp_path, publisher.publish):
        live.write(tmp_path, "depth", depths(day, False, now - 100 * SECOND), "two")
        resume = {
            **stop,
            "action": "resume",
            "outcome": "free",
            "stopped_ms": 60_000,
            "ts": now,
            "seq": stop["seq"] + 1,
        }
        live.write(tmp_path, "flow", [resume], "two")
        wait_for(lambda: reported("queue-full", "cleared"), PATIENCE, "the queue does not fill any more")
        wait_for(lambda: reported("producer-held", "cleared"), PATIENCE, "the producer is held no more")
    for kind in ("queue-full", "shard-hot", "producer-held"):
        assert len(reported(kind, "raised")) == 1


def test_an_alert_that_is_published_and_not_recorded_is_published_again_and_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The run ends between the two."""

    def ends(alerts: list[Alert]) -> None:
        published.extend(alerts)
        raise PipelineError("it ends")

    published: list[Alert] = []
    first = Alerts(spark, str(tmp_path), str(tmp_path / "checkpoint"), LIMITS, ends)
    alert = Alert("queue-full", True, ("n", "/", "q"), 5, {"depth": 3})
    with pytest.raises(PipelineError, match="it ends"):
        first._publish("tick", None, [alert])
    with watching(spark, tmp_path, published.extend) as second:
        assert not second.board.unpublished
    assert published == [alert, replace(alert, repeated=True)]
    with watching(spark, tmp_path, published.extend):
        assert len(published) == 2


def test_a_broker_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(PipelineError, match="no alert can be published"):
        Publisher("amqp://guest:guest@127.0.0.1:1/", "penstock.alerts").check()
    alert = Alert("queue-full", True, ("/", "q"), 0, {})
    with pytest.raises(PipelineError, match="alerts cannot be published"):
        Publisher("amqp://guest:guest@127.0.0.1:1/", "penstock.alerts", patience_s=0).publish([alert])
