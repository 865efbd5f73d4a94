"""When to check queues that are otherwise idle, because their messages, leases or they themselves expire."""

from __future__ import annotations

from heapq import heappop, heappush

from shard.contents.queue_cy import NEVER


class Alarms:
    """The earliest time that each queue asked for since it was last due, in microseconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._set: dict[int, int] = {}

    def set(self, queue_id: int, when: int) -> None:
        """Have a queue due at that time, unless it is due earlier: then it asks again."""
        if when < self._set.get(queue_id, NEVER):
            self._set[queue_id] = when
            heappush(self._heap, (when, queue_id))

    def due(self, now: int) -> list[int]:
        """Remove and return the queues that are due; each has to ask again."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            when, queue_id = heappop(self._heap)
            if self._set.get(queue_id) == when:
                del self._set[queue_id]
                found.append(queue_id)
        return found

    def next(self) -> int:
        """When the next queue is due; NEVER if none is."""
        return self._heap[0][0] if self._heap else NEVER
