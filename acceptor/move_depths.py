"""Queues on their way to another shard, as limits over several queues count them.

The old home lets go of a queue's place in the gauges when the new one may not have written to the next yet. Nothing is
delivered or dropped on the way, so a queue is as deep as it was.
"""

from __future__ import annotations

from penstock.memory.gauges import Gauges
from router.model.topology import Queue


class MoveDepths:
    """The ids of queues that are away, and the most that they were seen to hold since: messages, bytes."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self._most: dict[int, tuple[int, int]] = {}

    def __contains__(self, id: int) -> bool:
        return id in self._most

    def __len__(self) -> int:
        return len(self._most)

    def leaves(self, queue: Queue) -> None:
        self._most[queue.queue_id] = 0, 0
        self.depth(queue)

    def is_home(self, id: int) -> None:
        """Or is gone."""
        self._most.pop(id, None)

    def depth(self, queue: Queue) -> tuple[int, int]:
        """What a queue counts that is away, or was a moment ago."""
        most = self._most.get(queue.queue_id, (0, 0))
        gauge = self.gauges.queue_read(queue.slot)
        if gauge is not None and gauge.queue_id == queue.queue_id:
            count, octets = gauge.ready + gauge.unacked, gauge.whole_bytes
            most = max(most[0], count), max(most[1], octets)
        if queue.queue_id in self:
            self._most[queue.queue_id] = most
        return most
