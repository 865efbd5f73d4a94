"""The jobs on telemetry of a real broker, compared with a plain computation on the same files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from ops import status
from penstock.telemetry.layout import HOUR_US
from penstock.telemetry.schema import TABLES
from pipeline.compact import compact
from pipeline.jobs import consumers, episodes, hot_shards, rebalance_inputs, shard_load, time_to_full, trend
from pipeline.jobs.marks import Goals
from pipeline.jobs.queues import queues
from pipeline.read import Telemetry
from pipeline.report.answers import gather
from pipeline.report.contents import Report
from pipeline.report.page import page
from tests.broker import Broker
from tests.penstock.telemetry.reading import rows
from tests.pipeline.jobs.test_consumers import plain_consumers
from tests.pipeline.jobs.test_hot_shards import plain_hot_shards
from tests.pipeline.jobs.test_rebalance_inputs import plain_rebalance_inputs
from tests.pipeline.jobs.test_shard_load import plain_shard_load
from tests.pipeline.jobs.test_time_to_full import plain_time_to_full
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import Row, assert_same
from tests.raw import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

PUBLISHED = 400
IN_BYTES = {"qpid.flow_stop_size": 1_000_000, "qpid.flow_resume_size": 500_000}
MARKS = {"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 100}


class Run(NamedTuple):
    """The telemetry of a broker's run: its directory, and the range of time (µs since 1970)."""

    root: Path
    since: int
    until: int

    def rows(self, table: str) -> list[Row]:
        return [row for row in rows(self.root, table) if self.since <= row["ts"] < self.until]


def results(recorded: Path) -> int:
    """Return the number of messages published according to the rows."""
    return sum(row["n_published"] for row in rows(recorded, "depth"))


def has_reported(recorded: Path, count: int) -> bool:
    return results(recorded) == count


@pytest.fixture(scope="module")
def run(penstock_only: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A producer fills a queue that nobody reads until it is held, and another queue is drained as it is filled."""
    directory = tmp_path_factory.mktemp("telemetry")
    since = time.time_ns() // 1000
    recorded = directory / "data" / "telemetry"
    settings = ("telemetry.file_seconds=1", "telemetry.frame_seconds=0.2")
    with Broker(directory, *settings, shards=2) as broker, Client.connect(broker.address) as client:
        channel = client.channel()
        channel.call("queue.declare", queue="full", arguments=MARKS)
        channel.call("queue.declare", queue="drained")
        channel.call("basic.consume", queue="drained", no_ack=True)
        for _ in range(PUBLISHED):
            channel.publish(b"x" * 100, routing_key="drained")
        with Client.connect(broker.address) as other:
            producer = other.channel()
            for _ in range(PUBLISHED):
                producer.publish(b"y" * 100, routing_key="full")
            wait_for(lambda: any(row["saturated"] for row in rows(recorded, "depth")), 60, "a row of a full queue")
            channel.call("queue.purge", queue="full")
            wait_for(lambda: results(recorded) == 2 * PUBLISHED, 60, "rows that tell of all messages")
            # A process that ends does not wait for a slow disk: its last rows may be in no file that readers see.
            wait_for(lambda: any(row["action"] == "resume" for row in rows(recorded, "flow")), 60, "the resume")
    until = time.time_ns() // 1000 + 1
    return Run(recorded, since, until)


@pytest.fixture(scope="module")
def report(spark: SparkSession, run: Run) -> Report:
    results: list[str] = []
    found = gather(Telemetry(spark, str(run.root)), run.since, run.until, Goals(), hot_shards.Limits(), results.append)
    assert len(results) > len(found.answers)
    return found


def test_jobs_answer_as_a_plain_computation_does(spark: SparkSession, run: Run) -> None:
    telemetry = Telemetry(spark, str(run.root))
    frames = {table: telemetry.rows(table, run.since, run.until) for table in TABLES}
    depth, flow, shards = (run.rows(table) for table in ("depth", "flow", "shard"))
    assert sum(row["n_published"] for row in depth) == 2 * PUBLISHED
    assert_same(
        rebalance_inputs.rebalance_inputs(
            rebalance_inputs.with_rates(queues(frames["depth"]), frames["depth"]), run.since, run.until
        ),
        rebalance_inputs.TABLE,
        plain_rebalance_inputs(depth, run.since, run.until),
    )
    assert_same(
        consumers.consumers(queues(frames["depth"]), consumers.Limits()),
        consumers.TABLE,
        plain_consumers(depth, consumers.Limits()),
    )
    at = max(row["ts"] for row in depth if row["saturated"]) + 1
    assert_same(
        time_to_full.time_to_full(frames["depth"], run.since, at),
        time_to_full.TABLE,
        plain_time_to_full(depth, at, trend.WINDOW_US, trend.SAMPLES_LEAST),
    )
    load = plain_shard_load(shards, shard_load.SLOT_US)
    assert_same(shard_load.shard_load(frames["shard"]), shard_load.TABLE, load)
    assert_same(
        hot_shards.hot_shards(shard_load.shard_load(frames["shard"]), hot_shards.Limits()),
        hot_shards.TABLE,
        plain_hot_shards(load, hot_shards.Limits()),
    )
    found = episodes.episodes(frames["flow"], run.until)
    expected = plain_episodes(flow, run.until)
    assert_same(found, episodes.TABLE, expected, in_order=False)
    assert [(row["queue"], row["user"], row["cause"]) for row in expected] == [("full", "guest", "count")]


def test_messages_that_are_nearly_all_header_fill_a_queue_to_its_mark_in_bytes(
    spark: SparkSession, penstock_only: None, tmp_path: Path
) -> None:
    """One message a row gives a line: telemetry counts whole messages, so the line foresees the mark."""
    root, headers, rising = tmp_path / "data" / "telemetry", {"h": "h" * 50_000}, 8
    since = time.time_ns() // 1000
    with (
        Broker(tmp_path, "telemetry.file_seconds=1", "telemetry.frame_seconds=0.2") as broker,
        Client.connect(broker.address) as client,
    ):
        channel = client.channel()
        channel.call("queue.declare", queue="tasks", arguments=IN_BYTES)
        for count in range(1, rising + 1):
            channel.publish(b"x", routing_key="tasks", headers=headers)
            wait_for(partial(has_reported, root, count), 60, "a row that tells of it")
        depth = rows(root, "depth")
        (queue,) = status.collect(tmp_path / "data").queues
        assert queue["whole_bytes"] > rising * 50_000
        assert (depth[-1]["whole_bytes"], depth[-1]["ready_bytes"]) == (queue["whole_bytes"], rising)
        while not status.collect(tmp_path / "data").queues[0]["saturated"]:
            channel.publish(b"x", routing_key="tasks", headers=headers)
        wait_for(lambda: rows(root, "depth")[-1]["saturated"], 60, "a row of the full queue")
        full = rows(root, "depth")[-1]
    each = queue["whole_bytes"] // rising
    assert full["whole_bytes"] == (IN_BYTES["qpid.flow_stop_size"] // each + 1) * each

    for until in (depth[-1]["ts"] + 1, full["ts"] + 1):
        frame = Telemetry(spark, str(root)).rows("depth", since, until)
        seen = [row for row in rows(root, "depth") if row["ts"] < until]
        answer = time_to_full.time_to_full(frame, since, until)
        plain = plain_time_to_full(seen, until, trend.WINDOW_US, trend.SAMPLES_LEAST)
        assert_same(answer, time_to_full.TABLE, plain)
        (found,) = plain
        assert (found["full_by"], found["depth_bytes"]) == ("bytes", seen[-1]["whole_bytes"])
        assert (found["seconds"] == 0) == seen[-1]["saturated"]


def test_the_report_says_what_was(run: Run, report: Report) -> None:
    assert report.counts["depth"] == {"rows": len(run.rows("depth")), "corrupt": 0, "lost": 0}
    queues = {row["queue"]: row for row in report.answers["rebalance_inputs"].rows}
    assert queues["full"]["peak_depth"] > 0
    assert {row["shard"] for row in report.answers["hot_shards"].rows} == {0, 1}
    (held,) = report.answers["held"].rows
    assert (held["queue"], held["user"], held["open"]) == ("full", "guest", 0)
    assert held["stopped_ms"] > 0


def test_the_page_asks_nobody_for_anything(report: Report) -> None:
    text = page(report)
    assert all(link.startswith("#") for link in re.findall(r'href="([^"]*)"', text))
    assert not re.search(r"<script|<link|<img|<iframe|@import|\bsrc=", text)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert "<svg" in text
    assert "drained" in text


def test_compaction_changes_no_answer(spark: SparkSession, run: Run, report: Report) -> None:
    done = list(compact(spark, str(run.root), run.until + 2 * HOUR_US, 0))
    assert {each.table for each in done} >= {"depth", "shard"}
    assert all((each.manifest.corrupt, each.manifest.unreadable) == (0, ()) for each in done)
    telemetry = Telemetry(spark, str(run.root))
    assert not telemetry.paths("depth", run.since, run.until).live
    depth = telemetry.rows("depth", run.since, run.until)
    found = rebalance_inputs.rebalance_inputs(rebalance_inputs.with_rates(queues(depth), depth), run.since, run.until)
    assert_same(found, rebalance_inputs.TABLE, report.answers["rebalance_inputs"].rows)
