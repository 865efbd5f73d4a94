"""A queue as a stream that several tasks read in parallel, by leases (docs/queues.md): with penstock only.

A task's messages are leased to query/batch/partition. Leases outlive tasks and connections: a repeated task, batch or
whole query gets the same messages. The driver acks the leases of a batch once the batch is in the commit log, which
Spark shows by asking for the next one.

An offset is {"query": …, "batch": …, "rows": …, "leases": …}: the name that the query gave itself at its start, the
number of a batch, its number of messages, and its number of leases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from pyspark_penstock.columns import record_batches
from pyspark_penstock.options import StreamOptions
from pyspark_penstock.receiver import Receiver

POLL_SECONDS: Final = 0.1

SILENT_SECONDS: Final = 5.0
"""Time without a message that ends a read: a lease from an earlier task has fewer, or other consumers have the rest."""

Offset = dict[str, Any]


@dataclass
class Leased(InputPartition):
    """The work of a task: at most `rows` messages, by a lease."""

    lease: str
    rows: int


class LeasedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream` with leases. Spark also creates it in the planner and in tasks, so the driver's
    part connects only when asked for the latest offset.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._receiver: Receiver | None = None
        self._acked = -1
        self._drains = False
        self._remaining: int | None = None

    def initialOffset(self) -> Offset:
        """Name the query."""
        return {"query": uuid4().hex, "batch": 0, "rows": 0, "leases": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the query to the messages ready at its start."""
        self._drains = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the batch after `start`, which is in the commit log; `start` if there is nothing to
        read.
        """
        receiver = self._receiver or self._connect()
        self.commit(start)
        ready = receiver.count()
        if self._drains:
            self._remaining = ready if self._remaining is None else self._remaining
            ready = min(ready, self._remaining)
        elif not ready:
            time.sleep(POLL_SECONDS)
        rows = min(ready, self._options.maxrows)
        if not rows:
            return start
        if self._remaining is not None:
            self._remaining -= rows
        return {**start, "batch": start["batch"] + 1, "rows": rows, "leases": self._options.leases}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Divide the messages of a batch among its leases."""
        if start == end:
            return []
        each, more = divmod(end["rows"], end["leases"])
        rows = [each + (number < more) for number in range(end["leases"])]
        return [Leased(lease, count) for lease, count in zip(_leases(end), rows, strict=True) if count]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of the lease; if there are none yet, lease those that are ready."""
        assert isinstance(partition, Leased)
        arguments = {"x-lease": partition.lease, "x-lease-expires": self._options.leaseseconds * 1000}
        with Receiver(self._options.url, self._options.queue, partition.rows, arguments) as receiver:
            deliveries = receiver.gather(partition.rows, SILENT_SECONDS)
            receiver.cancel()
            deliveries += receiver.pop(partition.rows, 0)
        return record_batches(deliveries)

    def commit(self, end: Offset) -> None:
        """Ack the leases of a batch, unless they are acked already."""
        if self._receiver is not None and end["batch"] > self._acked:
            for lease in _leases(end):
                self._receiver.ack_lease(lease)
            self._acked = end["batch"]

    def stop(self) -> None:
        """Close the driver's connection."""
        if self._receiver is not None:
            self._receiver.close()

    def _connect(self) -> Receiver:
        receiver = Receiver(self._options.url, self._options.queue, 0)
        receiver.start()
        self._receiver = receiver
        return receiver


def _leases(offset: Offset) -> list[str]:
    """Return the leases of the batch that ends at `offset`."""
    return [f"{offset['query']}/{offset['batch']}/{number}" for number in range(offset["leases"])]
