"""An exchange as a sink: each task publishes its rows over a connection of its own and ends when all are confirmed.

A held producer waits, and so does its task; a rejected or returned message fails the task. A repeated task publishes
again, with the same message ids if its rows come in the same order: query/batch/partition/row of a stream,
write/partition/row of a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from pyspark_penstock.options import WriteOptions
from pyspark_penstock.schema import properties_of

RECONNECT_SECONDS: Final = 60.0
"""Time without a connection after which a task fails; until then unconfirmed messages are sent again."""


@dataclass
class Written(WriterCommitMessage):
    """The result of a task: the number of messages published, all of them confirmed."""

    count: int


class ExchangeWriter(DataSourceWriter):
    """The sink of `df.write`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = str(uuid4())

    def write(self, iterator: Iterable[Any]) -> Written:
        """Publish the rows of a task."""
        return publish(iterator, self._options, f"{self._name}/{_task().partitionId()}")


class ExchangeStreamWriter(DataSourceStreamWriter):
    """The sink of `df.writeStream`."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterable[Any]) -> Written:
        """Publish the rows of a task of a micro-batch."""
        task = _task()
        query = task.getLocalProperty("sql.streaming.queryId")
        batch = task.getLocalProperty("streaming.sql.batchId")
        return publish(iterator, self._options, f"{query}/{batch}/{task.partitionId()}")


def publish(rows: Iterable[Any], options: WriteOptions, prefix: str) -> Written:
    """Publish rows and wait for their confirms. Errors of `penstock.client` pass through: a message refused, a hold too
    long.
    """
    from penstock.client import Producer

    timeout = options.timeout or None
    unconfirmed: deque[Future[str]] = deque()
    count = 0
    with Producer(
        options.url, window_count=options.window, give_up_seconds=RECONNECT_SECONDS, name=f"Spark, {prefix}"
    ) as producer:
        for count, row in enumerate(rows, 1):
            receipt = _send(producer, row.asDict(), options, f"{prefix}/{count}", timeout)
            unconfirmed.append(receipt)
            while unconfirmed and unconfirmed[0].done():
                unconfirmed.popleft().result()
        producer.flush(timeout)
        for receipt in unconfirmed:
            receipt.result()
    return Written(count)


def _send(
    producer: Any, row: Mapping[str, Any], options: WriteOptions, message_id: str, timeout: float | None
) -> Future[str]:
    body = row["body"]
    receipt: Future[str] = producer.send(
        body.encode() if isinstance(body, str) else bytes(body or b""),
        _or_default(row.get("routing_key"), options.routingkey),
        exchange=_or_default(row.get("exchange"), options.exchange),
        properties={"message_id": message_id, **properties_of(row)},
        mandatory=options.mandatory,
        timeout=timeout,
    )
    return receipt


def _or_default(column: str | None, option: str) -> str:
    return option if column is None else column


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("the sink writes only in tasks of Spark")
    return task
