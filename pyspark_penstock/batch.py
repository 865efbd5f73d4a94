"""A queue as a table: a bounded read, requeued or acked at its end.

Each action on the table reads the queue anew. With `ack=none` the messages return to their places, and are marked
redelivered from then on. With `ack=end` they are acked once Spark has received the last row of the partition, which is
before the job ends: messages that must not be lost should be read as a stream, `trigger(availableNow=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.columns import record_batches
from pyspark_penstock.options import ReadOptions
from pyspark_penstock.receiver import Receiver


class QueueReader(DataSourceReader):
    """The reader of `spark.read`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the partitions, each a consumer of its own."""
        return [InputPartition(number) for number in range(self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read at most as many rows as were ready when the partition began. ReceiverError."""
        options = self._options
        with Receiver(options.url, options.queue, options.maxrows) as receiver:
            remaining = min(options.maxrows, receiver.ready)
            tag = 0
            while deliveries := receiver.drain(remaining):
                yield from record_batches(deliveries)
                tag, remaining = deliveries[-1].tag, remaining - len(deliveries)
            if options.ack == "end" and tag:
                receiver.ack(tag)
                receiver.count()
