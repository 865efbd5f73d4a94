"""A queue as a stream that several tasks read side by side, by leases (docs/queues.md): at penstock only.

What a task reads is leased to query/batch/partition. Leases outlive tasks and connections: a task, a batch, a whole
query that is run again gets the same messages. The driver acks the leases of a batch when that is in the commit log,
which Spark shows by asking for what comes after it.

An offset is {"query": …, "batch": …, "rows": …, "leases": …}: the name that the query gave itself at its beginning, the
number of a batch, how many messages it is to have, by how many leases.
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
"""As long without a message: a lease that an earlier task began holds fewer, or other consumers have the rest."""

Offset = dict[str, Any]


@dataclass
class Leased(InputPartition):
    """What a task reads: at most so many messages, by a lease."""

    lease: str
    rows: int


class LeasedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made in the planner and in tasks as well: the driver's part connects when it is asked for the latest offset."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._receiver: Receiver | None = None
        self._acked = -1
        self._drains = False
        self._left: int | None = None

    def initialOffset(self) -> Offset:
        return {"query": uuid4().hex, "batch": 0, "rows": 0, "leases": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Take as many as are ready when the query begins, and end."""
        self._drains = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The batch after `start`, which is in the commit log; `start` where there is nothing to read."""
        receiver = self._receiver or self._connect()
        self.commit(start)
        ready = receiver.count()
        if self._drains:
            self._left = ready if self._left is None else self._left
            ready = min(ready, self._left)
        elif not ready:
            time.sleep(POLL_SECONDS)
        rows = min(ready, self._options.maxrows)
        if not rows:
            return start
        if self._left is not None:
            self._left -= rows
        return {**start, "batch": start["batch"] + 1, "rows": rows, "leases": self._options.leases}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if start == end:
            return []
        each, more = divmod(end["rows"], end["leases"])
        rows = [each + (number < more) for number in range(end["leases"])]
        return [Leased(lease, count) for lease, count in zip(_leases(end), rows, strict=True) if count]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What the lease holds, or if there is none yet what is ready, which it holds from now on."""
        assert isinstance(partition, Leased)
        arguments = {"x-lease": partition.lease, "x-lease-expires": self._options.leaseseconds * 1000}
        with Receiver(self._options.url, self._options.queue, partition.rows, arguments) as receiver:
            deliveries = receiver.gather(partition.rows, SILENT_SECONDS)
            receiver.cancel()
            deliveries += receiver.take(partition.rows, 0)
        return record_batches(deliveries)

    def commit(self, end: Offset) -> None:
        """Ack what a batch and all before it had."""
        if self._receiver is not None and end["batch"] > self._acked:
            for lease in _leases(end):
                self._receiver.ack_lease(lease)
            self._acked = end["batch"]

    def stop(self) -> None:
        if self._receiver is not None:
            self._receiver.close()

    def _connect(self) -> Receiver:
        receiver = Receiver(self._options.url, self._options.queue, 0)
        receiver.start()
        self._receiver = receiver
        return receiver


def _leases(offset: Offset) -> list[str]:
    """The leases of the batch that ends there."""
    return [f"{offset['query']}/{offset['batch']}/{number}" for number in range(offset["leases"])]
