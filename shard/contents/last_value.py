"""Last-value queues: of the messages with the same key, only the newest waits, in the place of the first."""

from __future__ import annotations

from penstock.amqp.properties import PROPERTIES_AT
from penstock.amqp.splice import split_properties, split_table
from penstock.batch.batch_cy import HAS_HEADERS, Batch, BatchBuilder
from shard.contents.queue_cy import Queue

# So many keys beyond twice what is ready may be remembered before those of messages that are gone are forgotten.
SPARE_KEYS = 64


class LastValues:
    """Where in a queue the newest message of each key is. `key` is the name of the header that tells them apart."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._name = key.encode("utf-8", "surrogateescape")
        self._latest: dict[bytes, int] = {}

    def enqueue(self, contents: Queue, batch: Batch, first: int, count: int, now: int) -> None:
        """Put messages in the place of ready ones with their key; the others, and those without a key, at the end."""
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
        """A recovered message that was enqueued alone is the newest of its key."""
        value = self._value(contents.batch_of(sequence))
        if value is not None:
            self._latest[value] = sequence

    def _value(self, single: Batch) -> bytes | None:
        """Type and octets of the key header of a batch of one."""
        if not single.flags(0) & HAS_HEADERS:
            return None
        table = split_properties(single.record(0)[1][PROPERTIES_AT:]).get("headers")
        return None if table is None else split_table(table).get(self._name)


def _alone(batch: Batch, row: int) -> Batch:
    """A message copied, so that it does not keep all it came with."""
    builder = BatchBuilder()
    builder.extend(batch, row, 1)
    return builder.finish()
