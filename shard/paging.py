"""What of a shard's contents is in memory: the heads of its queues, and the rest as long as there is room.

From half of the shard's memory on, contents go: from the ends of the heaviest queues first. What a consumer will want
soon is read ahead of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard.priority_cy import PriorityQueue
from shard.queues import QueueState

if TYPE_CHECKING:
    from shard.core import ShardCore

# Percent of the shard's memory above which contents go, and how many are to be left.
ABOVE, LEFT = 50, 40
# Octets that stay at the head of a queue with consumers, and that are read ahead.
HEAD = 512 * 1024
AHEAD = 1024 * 1024
# At most so many octets are spilled with one commit.
SLICE = 16 * 1024 * 1024


class Paging:
    """Decides what goes out of memory and what comes back. `limit` is the shard's memory, in octets."""

    def __init__(self, core: ShardCore, limit: int) -> None:
        self.core = core
        self.limit = limit
        self.above = limit * ABOVE // 100
        self.left = limit * LEFT // 100
        self.begun = False
        self.fruitless = 0

    def page_out(self) -> None:
        """Let contents go if there are too many. What is being written can only go once it is."""
        core = self.core
        if core.weight <= (self.left if self.begun else max(self.above, self.fruitless)):
            self.begun = False
            return
        if core.journal is None or core.committing is not None:
            return
        self.begun = True
        excess = min(core.weight - self.left, SLICE)
        before = excess
        for queue in sorted(core.queues.values(), key=lambda queue: queue.weighed, reverse=True):
            excess -= queue.contents.page_out(excess, HEAD if queue.ring.consumers else 0)
            core.weigh(queue, queue.weight)
            if excess <= 0:
                break
        if excess == before:
            # All that is left is at heads or in hand: look again when there is more.
            self.begun = False
            self.fruitless = core.weight + SLICE

    def look_ahead(self, queue: QueueState) -> None:
        """Have read what the consumers of a queue will want next."""
        contents = queue.contents
        if not contents.paged or contents.reading or not contents.ready or not queue.ring.consumers:
            return
        if isinstance(contents, PriorityQueue):
            return  # which line is served next is not known
        wanted = contents.ahead(contents.first_ready(), AHEAD)
        if wanted:
            contents.reading = True
            self.core.reads.append((queue, wanted))
