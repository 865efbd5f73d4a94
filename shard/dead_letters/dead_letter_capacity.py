"""Room in queues for dead letters: internal producers are held by marks like others.

Letters need not wait for the resume mark: they are accepted up to the stop mark and its overshoot. A letter has left
another queue, and letters that died here and find no room elsewhere do not count, so queues that dead-letter to each
other go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.limits.watermarks import Marks, QueueLimits
from router.model.records import Queue

if TYPE_CHECKING:
    from shard.turns.state import ShardState


class DeadLetterCapacity:
    """The letters in flight to queues, messages and bytes by id, in addition to their depth."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.under_way: dict[int, list[int]] = {}

    def is_for(self, target: Queue, nbytes: int, heeded: bool = True) -> bool:
        """Whether a queue has room for a letter of this whole size in bytes.

        An empty queue has room for any letter, and so has one whose marks are not `heeded`.
        """
        if self.state.topology.is_stopped(target.queue_id):
            return False  # it is moving to another shard
        if not heeded:
            return True
        marks, count, held = self.marks_and_depth(target)
        if not marks:
            return True
        more_count, more_bytes = self.under_way.get(target.queue_id, (0, 0))
        count, held = count + more_count, held + more_bytes
        if marks.stop_count and count >= marks.stop_count + marks.overshoot_count:
            return False
        return not marks.stop_bytes or held == 0 or held + nbytes <= marks.stop_bytes + marks.overshoot_bytes

    def marks_and_depth(self, target: Queue) -> tuple[Marks, int, int]:
        """The marks (none, if it holds no producer) and depth of a queue, without its own dead that wait for room."""
        queue, gauges, slot = self.state.queues.get(target.queue_id), self.state.gauges, target.slot
        if queue is not None:
            contents = queue.contents
            marks = Marks.NONE if queue.stands_aside else queue.limits.marks
            return marks, contents.ready + contents.unacked, contents.ready_whole + contents.unacked_whole
        marks = QueueLimits.from_wire(target.limits).marks
        gauge = gauges.queue_read(slot) if marks and not gauges.aside(slot) else None
        if gauge is None:
            return Marks.NONE, 0, 0
        return marks, gauge.ready + gauge.unacked, gauge.whole_bytes

    def sent(self, target: Queue, nbytes: int) -> None:
        """A letter is in flight to the queue."""
        known = self.under_way.setdefault(target.queue_id, [0, 0])
        known[0] += 1
        known[1] += nbytes

    def arrived(self, queues: tuple[int, ...], count: int, nbytes: int) -> None:
        """So many letters have arrived and are in the depth of their queues."""
        for id in queues:
            known = self.under_way[id]
            known[0] -= count
            known[1] -= nbytes
            if not known[0]:
                del self.under_way[id]
