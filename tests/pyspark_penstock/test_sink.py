"""Rows published: each confirmed, with an id that a repeated task gives it again. Within Spark: test_source.py."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row

from penstock.client import Unroutable
from pyspark_penstock.options import WriteOptions
from pyspark_penstock.sink import ExchangeStreamWriter, ExchangeWriter, Written, publish
from tests.raw import Channel


@pytest.mark.parametrize("kind", [ExchangeWriter, ExchangeStreamWriter])
def test_it_writes_only_in_tasks(kind: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^the sink writes only in tasks of Spark$"):
        kind(WriteOptions(url="amqp://127.0.0.1:1/")).write([])


@pytest.mark.broker
def test_rows_are_published_in_order_with_ids_by_their_number(url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, durable=True)
    rows = [Row(body=b"bytes"), Row(body="text é"), Row(body=None)]
    assert publish(rows, WriteOptions(url=url, routingkey=queue), "query/7/0") == Written(3)
    found = [channel.get(queue) for _ in rows]
    assert [event and event.body for event in found] == [b"bytes", "text é".encode(), b""]
    assert [event and event.properties["message_id"] for event in found] == [f"query/7/0/{n}" for n in (1, 2, 3)]


@pytest.mark.broker
def test_columns_of_a_row_come_before_the_options(url: str, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, durable=True)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=f"{queue}.key")
    rows = [
        Row(body=b"by column", exchange="amq.direct", routing_key=f"{queue}.key", message_id="own", priority=3),
        Row(body=b"by option", exchange=None, routing_key=None, message_id=None, priority=None),
    ]
    assert publish(rows, WriteOptions(url=url, exchange="", routingkey=queue), "p") == Written(2)
    one, other = (channel.get(queue) for _ in rows)
    assert one is not None and other is not None
    assert (one.body, one.exchange, one.properties["message_id"]) == (b"by column", "amq.direct", "own")
    assert one.properties["priority"] == 3
    assert (other.body, other.exchange, other.properties["message_id"]) == (b"by option", "", "p/2")


@pytest.mark.broker
def test_a_message_that_no_queue_takes_fails_the_task_unless_that_is_allowed(url: str, queue: str) -> None:
    rows = [Row(body=b"lost")]
    with pytest.raises(Unroutable):
        publish(rows, WriteOptions(url=url, routingkey=queue), "p")
    assert publish(rows, WriteOptions(url=url, routingkey=queue, mandatory=False), "p") == Written(1)
    assert publish([], WriteOptions(url=url, routingkey=queue), "p") == Written(0)
