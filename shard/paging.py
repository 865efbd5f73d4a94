"""What of a shard's contents is in memory: the heads of its queues, and the rest as long as there is room.

From half of the shard's memory on, contents go: from the ends of the heaviest queues first. What a consumer will want
soon is read ahead of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.batch_cy import Batch
from shard.queue_cy import NEVER
from shard.queues import QueueState
from shard.segment_cy import Segment

if TYPE_CHECKING:
    from shard.core import ShardCore

# Percent of the shard's memory above which contents go, and how many are to be left.
ABOVE, LEFT = 50, 40
# Octets that stay at the head of a queue with consumers, at most; twice as many are read ahead.
HEAD = 512 * 1024
# At most so many octets are spilled with one commit.
SLICE = 16 * 1024 * 1024
# Where all that is left is at heads or in hand, it is looked through again after so many microseconds.
REST = 100_000


class Paging:
    """Decides what goes out of memory and what comes back. `limit` is the shard's memory, in octets.

    `head` is how many octets stay at the head of a queue with consumers. `wake` is when there may be more to do though
    nothing happens, in microseconds since 1970. `reads` are segments to be read, for whoever drives the core.
    """

    def __init__(self, core: ShardCore, limit: int) -> None:
        self.core = core
        self.above = limit * ABOVE // 100
        self.left = limit * LEFT // 100
        self.head = HEAD
        self.begun = False
        self.wake = NEVER
        self.reads: list[tuple[QueueState, list[Segment]]] = []

    def page_out(self) -> None:
        """Let contents go if there are too many. What is being written can only go once it is."""
        core = self.core
        if core.weight <= (self.left if self.begun else self.above):
            self.begun = False
            self.wake = NEVER
            return
        self.begun = True
        if core.journal is None or core.commits.under_way or (self.wake != NEVER and core.now < self.wake):
            return
        # All heads together take no more than half of what is to be left.
        heads = sum(1 for queue in core.queues.values() if queue.ring.consumers)
        self.head = min(HEAD, self.left // (2 * max(heads, 1)))
        excess = min(core.weight - self.left, SLICE)
        before = excess
        for queue in sorted(core.queues.values(), key=lambda queue: queue.weighed, reverse=True):
            excess -= queue.contents.page_out(excess, self.head if queue.ring.consumers else 0)
            core.weigh(queue, queue.weight)
            if excess <= 0:
                break
        self.wake = core.now + REST if excess == before and not core.journal else NEVER

    def look_ahead(self, queue: QueueState) -> None:
        """Have read what the consumers of a queue will want next."""
        contents = queue.contents
        if not contents.paged or contents.reading or not contents.ready or not queue.ring.consumers:
            return
        if queue.last_values is not None:
            return  # what is read may be replaced meanwhile
        wanted = contents.ahead(contents.first_ready(), 2 * self.head)
        if wanted:
            contents.reading = True
            self.reads.append((queue, wanted))

    def were_read(self, queue: QueueState, segments: list[Segment], batches: list[Batch]) -> None:
        """What was asked for in `reads`, as far as it could be read."""
        queue.contents.reading = False
        for segment, batch in zip(segments, batches, strict=False):
            queue.contents.install(segment, batch)
        if queue.id in self.core.queues:
            self.core.touch(queue)
