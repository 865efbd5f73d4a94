"""Depths of queues that move to another shard, as limits over several queues count them.

The old home gives up a queue's slot in the gauges when the new one may not have written to its own yet. Nothing is
delivered or dropped during a move, so a queue stays as deep as it was.
"""

from __future__ import annotations

from penstock.memory.gauges import Gauges
from router.model.topology import Queue


class MoveDepths:
    """The queues that are away, by id, and the largest depth seen of each since it left: messages, bytes."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self._most: dict[int, tuple[int, int]] = {}

    def __contains__(self, id: int) -> bool:
        return id in self._most

    def __len__(self) -> int:
        return len(self._most)

    def leaves(self, queue: Queue) -> None:
        """A queue begins to move: record its depth."""
        self._most[queue.queue_id] = 0, 0
        self.depth(queue)

    def is_home(self, id: int) -> None:
        """A queue is at its old or new home, or deleted."""
        self._most.pop(id, None)

    def depth(self, queue: Queue) -> tuple[int, int]:
        """Return the depth that counts for a queue that is away, or was a moment ago."""
        most = self._most.get(queue.queue_id, (0, 0))
        gauge = self.gauges.queue_read(queue.slot)
        if gauge is not None and gauge.queue_id == queue.queue_id:
            count, nbytes = gauge.ready + gauge.unacked, gauge.whole_bytes
            most = max(most[0], count), max(most[1], nbytes)
        if queue.queue_id in self:
            self._most[queue.queue_id] = most
        return most
