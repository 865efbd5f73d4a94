"""When queues want to be looked at though nothing happens to them: because something in them, or they, will expire."""

from __future__ import annotations

from heapq import heappop, heappush

from shard.contents.queue_cy import NEVER


class Alarms:
    """For each queue the earliest time it asked for since it was last due. Times are microseconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._set: dict[int, int] = {}

    def set(self, queue_id: int, when: int) -> None:
        """Have a queue due by then. One that is due earlier stays so: it asks again when it is."""
        if when < self._set.get(queue_id, NEVER):
            self._set[queue_id] = when
            heappush(self._heap, (when, queue_id))

    def due(self, now: int) -> list[int]:
        """The queues whose time has come; each has to ask again."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            when, queue_id = heappop(self._heap)
            if self._set.get(queue_id) == when:
                del self._set[queue_id]
                found.append(queue_id)
        return found

    def next(self) -> int:
        """When something is due; NEVER if nothing is."""
        return self._heap[0][0] if self._heap else NEVER
