"""The data source with RabbitMQ."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.differential.rabbitmq import serve
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(600)]


def test_tables_streams_and_sinks_at_rabbitmq(spark: SparkSession, tmp_path: Path) -> None:
    with serve(tmp_path) as address, pika.BlockingConnection(pika.URLParameters(address.url)) as connection:
        channel = connection.channel()
        for queue in ("source", "sink"):
            channel.queue_declare(queue, durable=True)

        def depth(queue: str) -> int:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

        table = spark.range(1000).selectExpr("string(id) as body", "'source' as routing_key")
        table.write.format("penstock").option("url", address.url).mode("append").save()
        assert depth("source") == 1000
        check = spark.read.format("penstock").options(url=address.url, queue="source").load()
        assert sorted(int(row.body) for row in check.collect()) == list(range(1000))
        wait_for(lambda: depth("source") == 1000, what="all of them back")
        query = (
            spark.readStream.format("penstock").options(url=address.url, queue="source", maxRows=300).load()
            .select("body", "message_id")
            .writeStream.format("penstock").options(url=address.url, routingKey="sink").trigger(availableNow=True)
            .start(checkpointLocation=str(tmp_path / "checkpoint"))
        )  # fmt: skip
        assert query.awaitTermination(300)
        assert (depth("source"), depth("sink")) == (0, 1000)
        taken = spark.read.format("penstock").options(url=address.url, queue="sink", ack="end").load()
        assert sorted(int(row.body) for row in taken.collect()) == list(range(1000))
        assert depth("sink") == 0
        refused = (
            spark.readStream.format("penstock").options(url=address.url, queue="source", leases=2).load()
            .writeStream.format("noop").start(checkpointLocation=str(tmp_path / "refused"))
        )  # fmt: skip
        with pytest.raises(StreamingQueryException, match="this broker has no leases"):
            refused.awaitTermination(300)
