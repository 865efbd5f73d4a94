"""A queue as a table: a bounded read, put back or acked at its end.

Each action on the table reads the queue anew. With `ack=none` that is a look: the messages go back to their places and
come as redelivered from then on. With `ack=end` they are acked once Spark has been handed the last row of the
partition, which is before the job has ended: what must not be lost is read as a stream, `trigger(availableNow=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_penstock.columns import record_batches
from pyspark_penstock.options import ReadOptions
from pyspark_penstock.receiver import Receiver


class QueueReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows, at most as many as were ready when the partition began. ReceiverError."""
        options = self._options
        with Receiver(options.url, options.queue, options.maxrows) as receiver:
            left = min(options.maxrows, receiver.ready)
            tag = 0
            while deliveries := receiver.drain(left):
                yield from record_batches(deliveries)
                tag, left = deliveries[-1].tag, left - len(deliveries)
            if options.ack == "end" and tag:
                receiver.ack(tag)
                receiver.count()
