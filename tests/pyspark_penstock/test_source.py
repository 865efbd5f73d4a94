"""`format("penstock")` in a real Spark, with a real broker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.pyspark_penstock.queues import fill, wait_held
from tests.raw import Channel
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

SPARK_SECONDS = 120.0
"""The longest time for an action in which Spark starts processes, on a busy machine."""

Numbers = Callable[[int], DataFrame]


@pytest.fixture
def numbers(spark: SparkSession, queue: str) -> Numbers:
    """Return a function that makes a table of messages for the queue, with their numbers as bodies."""
    return lambda count: spark.range(0, count, 1, 2).selectExpr("string(id) as body", f"'{queue}' as routing_key")


def bodies(table: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in table.select("body").collect())


def test_a_table_is_published_and_read_again(
    spark: SparkSession, broker: Broker, numbers: Numbers, url: str, channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue)
    table = numbers(500).selectExpr(
        "*", "map('n', body) as headers", "'{\"list\": [1]}' as headers_json", "9 as priority"
    )
    table.write.format("penstock").option("url", url).mode("append").save()
    wait_held(broker, queue, 500, 0)
    read = spark.read.format("penstock").options(url=url, queue=queue, maxRows=400).load()
    rows = read.collect()
    assert len(rows) == 400 and all(row.headers["n"] == row.body.decode() for row in rows)
    assert {(row.routing_key, row.exchange, row.priority, row.headers_json) for row in rows} == {
        (queue, "", 9, '{"list": [1]}')
    }
    assert len({row.message_id for row in rows}) == 400
    wait_held(broker, queue, 500, 0)
    taken = spark.read.format("penstock").options(url=url, queue=queue, ack="end", partitions=2).load()
    assert bodies(taken) == list(range(500))
    wait_held(broker, queue, 0, 0)


def test_a_message_that_no_queue_takes_fails_the_task(numbers: Numbers, url: str) -> None:
    with pytest.raises(Exception, match="Unroutable: 312"):
        numbers(1).write.format("penstock").option("url", url).mode("append").save()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queu": "q"}, "did you mean 'queue'?"),
        ({}, "the option queue is missing"),
        ({"queue": "q", "ack": "x"}, "ack must be"),
    ],
)
def test_options_are_refused_with_their_reason(spark: SparkSession, options: dict[str, str], said: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.read.format("penstock").options(**options).load().count()
    assert said in str(refused.value)


def test_a_sink_that_is_held_waits_and_loses_nothing(
    broker: Broker, numbers: Numbers, url: str, channel: Channel, queue: str
) -> None:
    channel.call("queue.declare", queue=queue, arguments=MARKS)
    count = 3 * STOP
    taken: list[bytes] = []

    def is_drained() -> bool:
        while event := channel.get(queue):
            taken.append(event.body)
        return len(taken) == count

    def is_held() -> bool:
        return any(cause.get("name") == queue for session in broker.held() for cause in session["causes"])

    def drain_once_held() -> None:
        wait_for(is_held, SPARK_SECONDS, "a held producer")
        wait_for(is_drained, SPARK_SECONDS, f"{count} messages")

    with ThreadPoolExecutor(1) as pool:
        draining = pool.submit(drain_once_held)
        sink = numbers(count).write.format("penstock").options(url=url, timeout=SPARK_SECONDS)
        sink.mode("append").save()
        draining.result()
    assert sorted(map(int, taken)) == list(range(count))


def stream(spark: SparkSession, url: str, queue: str, **options: object) -> DataFrame:
    return spark.readStream.format("penstock").options(url=url, queue=queue, **options).load()  # type: ignore[arg-type]


def test_an_idle_query_holds_nothing(
    spark: SparkSession, broker: Broker, url: str, channel: Channel, queue: str, tmp_path: Path
) -> None:
    fill(channel, queue, 1000)
    query: StreamingQuery = (
        stream(spark, url, queue, maxRows=300)
        .writeStream.format("parquet")
        .start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
    )
    try:
        wait_for(lambda: query.exception() or broker_is_empty(broker, queue), SPARK_SECONDS, "an empty queue")
        assert query.exception() is None and query.isActive
    finally:
        query.stop()
    assert bodies(spark.read.parquet(str(tmp_path / "out"))) == list(range(1000))


def broker_is_empty(broker: Broker, queue: str) -> bool:
    return any(gauge.name == queue and not gauge.ready and not gauge.unacked for gauge in broker.queues())


def test_a_stream_from_queue_to_queue_ends_when_all_that_was_there_is_across(
    spark: SparkSession, broker: Broker, url: str, channel: Channel, names: Callable[[str], str], tmp_path: Path
) -> None:
    source, sink = names("source"), names("sink")
    fill(channel, source, 1000)
    channel.call("queue.declare", queue=sink)
    query = (
        stream(spark, url, source, maxRows=400)
        .select("body", "headers", "priority")
        .writeStream.format("penstock")
        .options(url=url, routingKey=sink)
        .trigger(availableNow=True)
        .start(checkpointLocation=str(tmp_path))
    )
    assert query.awaitTermination(int(SPARK_SECONDS))
    wait_held(broker, source, 0, 0)
    wait_held(broker, sink, 1000, 0)
    found = [channel.get(sink) for _ in range(1000)]
    assert [int(event.body) for event in found if event] == list(range(1000))
    ids = [str(event.properties["message_id"]) for event in found if event]
    assert len(set(ids)) == 1000 and all(each.startswith(f"{query.id}/") for each in ids)
