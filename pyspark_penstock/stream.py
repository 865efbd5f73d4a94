"""A queue as a stream: at least once, acked when the micro-batch is in Spark's commit log.

One Python process beside the driver lives as long as the query and runs the consumer. An offset {"n": …} counts the
messages of all runs of the query; delivery tags count those of one run. Spark calls `read(start)` only once the batch
that ends at `start` is in the commit log, so `read` acks all messages up to there: `commit` alone would come a batch
late.

Spark asks for a batch that a crash left unfinished with `readBetweenOffsets`, and gets an empty one: its messages were
not acked, so the broker has requeued them, and they come in later batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from pyspark_penstock.columns import record_batches
from pyspark_penstock.options import StreamOptions
from pyspark_penstock.receiver import Receiver

WAIT_SECONDS: Final = 0.1
"""How long a read waits for the first message. Without the wait Spark would ask a hundred times a second."""


class QueueStreamReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of `spark.readStream` without leases. Spark also creates it in the planner, where it must not connect:
    the first `read` connects.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._receiver: Receiver | None = None
        self._base = 0
        self._acked = 0
        self._drains = False
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Begin to count messages."""
        return {"n": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the query to the messages ready at its start."""
        self._drains = True

    def read(self, start: dict[str, int]) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Return up to `maxrows` rows. ReceiverError, which fails the query, if the connection or the queue is gone."""
        n = start["n"]
        receiver = self._receiver or self._connect(n)
        self._ack_up_to(n)
        if self._target is None:
            deliveries = receiver.pop(self._options.maxrows, WAIT_SECONDS)
        else:
            deliveries = receiver.drain(min(self._options.maxrows, self._target - n))
            if not deliveries:
                receiver.count()  # the query ends, and its acks must arrive first
        return iter(list(record_batches(deliveries))), {"n": n + len(deliveries)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[pa.RecordBatch]:
        """Return no rows: the broker has requeued the messages of an unfinished batch."""
        return iter(())

    def commit(self, end: dict[str, int]) -> None:
        """Ack the messages up to an offset."""
        self._ack_up_to(end["n"])

    def _connect(self, n: int) -> Receiver:
        receiver = Receiver(self._options.url, self._options.queue, self._options.unacked)
        receiver.start()
        self._receiver, self._base, self._acked = receiver, n, n
        if self._drains:
            self._target = n + receiver.ready
        return receiver

    def _ack_up_to(self, n: int) -> None:
        if self._receiver is not None and n > self._acked:
            self._receiver.ack(n - self._base)
            self._acked = n
