"""Facts of queues: their first and last rows, rates and sizes. The twins of the answers cover the other facts."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs.queues import queues
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place
from tests.pipeline.tables import Row, frame, rows_of


def test_of_rows_of_one_time_the_number_decides(spark: SparkSession, day: Day) -> None:
    """Two rows have the same time when a queue changes in the second of its last quiet row."""
    rows: list[Row] = []
    for row in day.depth:
        rows += [row, {**row, "seq": row["seq"] + 10**6, "ready": row["ready"] + 7, "shard": 9}]
    found = {(row["node"], row["vhost"], row["queue"]): row for row in rows_of(queues(frame(spark, DEPTH, rows)))}
    for place, own in by_place(rows).items():
        assert found[place]["first_depth"] == backlog(own[0])
        assert found[place]["last"]["depth"] == backlog(own[-1]) == backlog(own[-2]) + 7
        assert found[place]["last"]["shard"] == 9
    assert found.keys() == by_place(rows).keys()


def test_consumers_that_had_nothing_to_do_have_no_rate(spark: SparkSession, day: Day) -> None:
    quiet = {"ready": 0, "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "whole_bytes": 0}
    rows = [{**row, **quiet, "queue": "quiet"} for row in day.depth[:9]]
    (found,) = rows_of(queues(frame(spark, DEPTH, rows)))
    assert (found["drain"], found["message_bytes"], found["peak_depth"]) == (None, None, 0)


def test_sizes_are_of_whole_messages_as_far_as_rows_tell(spark: SparkSession, day: Day) -> None:
    like = {**day.depth[0], "queue": "upgraded", "unacked": 0, "unacked_bytes": 0, "ready": 10, "ready_bytes": 100}
    old = [{**like, "ts": day.since + number, "whole_bytes": None} for number in range(3)]
    new = [{**like, "ts": day.since + number, "whole_bytes": 50_000} for number in range(3, 6)]
    for rows, size, most in ((old + new, 5_000.0, 50_000), (old, 10.0, 100)):
        (found,) = rows_of(queues(frame(spark, DEPTH, rows)))
        assert (found["message_bytes"], found["peak_bytes"], found["last"]["bytes"]) == (size, most, most)
