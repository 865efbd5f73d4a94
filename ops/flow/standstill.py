"""Full queues that get nothing back, as the gauges show them: whether it is worth asking who waits for whom.

Asking costs every process something, looking at gauges only who looks.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from penstock.memory.gauges import Gauges


class Still(NamedTuple):
    """Of a full queue of which consumers have something in hand: its id, what it has got back in all, and since when
    it is known to have got no more, in seconds of the caller's clock.
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
        """Whether two full queues have got nothing back for `least` seconds, and the last of them for less than `most`:
        what stands still for longer is somebody else's to find.
        """
        for slot in self._gauges.queues_written(self._seen):
            self._look(slot, now)
        still = [now - queue.since for queue in self._full.values() if now - queue.since >= least]
        return len(still) > 1 and min(still) < most

    def _look(self, slot: int, now: float) -> None:
        row = self._gauges.queue_read(slot) if self._gauges.saturated(slot) else None
        if row is None or not row.unacked:
            self._full.pop(slot, None)
            return
        known = self._full.get(slot)
        if known is None or (known.id, known.acked) != (row.queue_id, row.acked):
            self._full[slot] = Still(row.queue_id, row.acked, now)
