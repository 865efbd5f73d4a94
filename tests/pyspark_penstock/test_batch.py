"""A queue as a table: ready messages are read once, and requeued or acked at the end. In Spark: test_source.py."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import InputPartition

from pyspark_penstock.batch import QueueReader
from pyspark_penstock.options import ReadOptions
from tests.broker import Broker
from tests.pyspark_penstock.queues import fill, numbers, wait_held
from tests.raw import Channel


def reader(url: str, queue: str, **options: object) -> QueueReader:
    return QueueReader(ReadOptions(url=url, queue=queue, **options))  # type: ignore[arg-type]


def test_each_partition_is_a_consumer_of_its_own() -> None:
    partitions = reader("amqp://127.0.0.1:1/", "q", partitions=3).partitions()
    assert [partition.value for partition in partitions] == [0, 1, 2]


@pytest.mark.broker
def test_without_acks_all_messages_return_to_their_places(
    broker: Broker, url: str, channel: Channel, queue: str
) -> None:
    fill(channel, queue, 50)
    for _ in range(2):
        assert numbers(reader(url, queue).read(InputPartition(0))) == list(range(50))
        wait_held(broker, queue, 50, 0)


@pytest.mark.broker
def test_with_acks_the_rows_that_were_read_are_gone(broker: Broker, url: str, channel: Channel, queue: str) -> None:
    fill(channel, queue, 50)
    assert numbers(reader(url, queue, ack="end", maxrows=30).read(InputPartition(0))) == list(range(30))
    wait_held(broker, queue, 20, 0)
    assert numbers(reader(url, queue, ack="end").read(InputPartition(0))) == list(range(30, 50))
    assert numbers(reader(url, queue, ack="end").read(InputPartition(0))) == []
    wait_held(broker, queue, 0, 0)


@pytest.mark.broker
def test_a_read_that_is_given_up_acks_nothing(broker: Broker, url: str, channel: Channel, queue: str) -> None:
    fill(channel, queue, 50)
    rows = reader(url, queue, ack="end").read(InputPartition(0))
    assert next(rows).num_rows > 0
    rows.close()  # type: ignore[attr-defined]
    wait_held(broker, queue, 50, 0)
