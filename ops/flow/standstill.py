"""Full queues that get no acks, as the gauges show them: a sign that it is worth asking for the graph of waits.

Asking costs every process something; reading the gauges costs only the reader.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from penstock.memory.gauges import Gauges


class Still(NamedTuple):
    """A full queue with unacked messages: its id, its number of acks in all, and since when that has not changed, in
    seconds of the caller's clock.
    """

    id: int
    acked: int
    since: float


class Standstill:
    """The full queues of a node, by their slots in the gauges."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._seen = memoryview(array("Q", bytes(8 * gauges.slots)))
        self._full: dict[int, Still] = {}

    def has_begun(self, now: float, least: float, most: float) -> bool:
        """Whether two full queues have had no ack for `least` seconds, and the latest of them for less than `most`:
        longer standstills are left to the regular search.
        """
        for slot in self._gauges.queues_written(self._seen):
            self._update(slot, now)
        still = [now - queue.since for queue in self._full.values() if now - queue.since >= least]
        return len(still) > 1 and min(still) < most

    def _update(self, slot: int, now: float) -> None:
        row = self._gauges.queue_read(slot) if self._gauges.saturated(slot) else None
        if row is None or not row.unacked:
            self._full.pop(slot, None)
            return
        known = self._full.get(slot)
        if known is None or (known.id, known.acked) != (row.queue_id, row.counters.acked):
            self._full[slot] = Still(row.queue_id, row.counters.acked, now)
