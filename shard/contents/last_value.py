"""Last-value queues: of the ready messages with the same key only the newest is kept, in the place of the first."""

from __future__ import annotations

from penstock.amqp.properties import PROPERTIES_AT
from penstock.amqp.splice import split_properties, split_table
from penstock.batch.batch_cy import HAS_HEADERS, Batch, BatchBuilder
from shard.contents.queue_cy import Queue

# Keys remembered beyond twice the number of ready messages, before those of absent messages are forgotten.
SPARE_KEYS = 64


class LastValues:
    """The position of the newest message of each key. `key` is the name of the header that holds the key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._name = key.encode("utf-8", "surrogateescape")
        self._latest: dict[bytes, int] = {}

    def enqueue(self, contents: Queue, batch: Batch, first: int, count: int, now: int) -> None:
        """Enqueue messages. Each takes the place of the ready one with its key; others, and those without a key, go to
        the end.
        """
        for row in range(first, first + count):
            single = _alone(batch, row)
            value = self._value(single)
            if value is None:
                contents.enqueue(single, 0, 1, now)
            elif value not in self._latest or not contents.replace(self._latest[value], single, now):
                self._latest[value] = contents.enqueue(single, 0, 1, now)
        if len(self._latest) > 2 * contents.ready + SPARE_KEYS:
            ready = {value: place for value, place in self._latest.items() if contents.is_ready(place)}
            self._latest = ready

    def recall(self, contents: Queue, sequence: int) -> None:
        """Record a recovered message that was enqueued alone as the newest of its key."""
        value = self._value(contents.batch_of(sequence))
        if value is not None:
            self._latest[value] = sequence

    def _value(self, single: Batch) -> bytes | None:
        """Type and bytes of the key header in a batch of one message; None without the header."""
        if not single.flags(0) & HAS_HEADERS:
            return None
        table = split_properties(single.record(0)[1][PROPERTIES_AT:]).get("headers")
        return None if table is None else split_table(table).get(self._name)


def _alone(batch: Batch, row: int) -> Batch:
    """A copy of one message, which does not keep the rest of its batch in memory."""
    builder = BatchBuilder()
    builder.extend(batch, row, 1)
    return builder.finish()
