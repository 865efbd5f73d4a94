"""What of a shard's contents is in memory: the heads of its queues, and the rest as long as there is room.

From half of the shard's memory on, or from a quarter where the memory of the node's processes is scarce, contents go:
from the ends of the heaviest queues first, then what consumers have in hand. If the shard would hold its producers all
the same, even the heads go: whatever consumers wait for before they go on, it must not be room that they themselves
take up. What a consumer will want soon is read ahead of it. Of a queue with a window what is beyond that goes, whatever
room there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.batch.batch_cy import Batch
from shard.contents.queue_cy import NEVER
from shard.contents.segment_cy import Segment
from shard.queue.queue_state import QueueState
from shard.turns.room import PROCESSES

if TYPE_CHECKING:
    from shard.turns.commits import Commits
    from shard.turns.gate import Gate
    from shard.turns.state import ShardState

# Percent of the shard's memory above which contents go, and how many are to be left.
ABOVE, LEFT = 50, 40
# Where the memory of the node's processes is scarce both are so many times less.
SCARCE = 2
# Octets that stay at the head of a queue with consumers, at most; twice as many are read ahead.
HEAD = 512 * 1024
# At most so many octets are spilled with one commit.
SLICE = 16 * 1024 * 1024
# So much comes in beyond a window before it goes: pieces of that size are worth writing.
PIECE = 128 * 1024
# While a commit is under way it is looked for what may go once there is that part of the shard's memory more.
AGAIN = 32
# Where all that is left is at heads or in hand, it is looked through again after so many microseconds.
REST = 100_000


class Paging:
    """Decides what goes out of memory and what comes back. `limit` is the shard's memory, in octets, `resume` what it
    may hold and let its producers go on.

    `head` is how many octets stay at the head of a queue with consumers. `wake` is when there may be more to do though
    nothing happens, in microseconds since 1970. `reads` are segments to be read, for whoever drives the core. `seen` is
    what was there when it was last looked for what may go while a commit is under way.
    """

    def __init__(self, state: ShardState, commits: Commits, gate: Gate) -> None:
        self.state = state
        self.commits = commits
        self.gate = gate
        self.head = HEAD
        self.begun = False
        self.seen = 0
        self.wake = NEVER
        self.reads: list[tuple[QueueState, list[Segment]]] = []
        self.beyond: dict[int, QueueState] = {}

    def limit(self, limit: int, resume: int) -> None:
        """The memory of the shard, in octets, and the mark at which its gate opens again."""
        self.resume = resume
        self.again = limit // AGAIN
        self.above = min(limit * ABOVE // 100, resume)
        self.left = min(limit * LEFT // 100, resume)

    def page_out(self) -> None:
        """Let contents go if there are too many. What is being written can only go once it is."""
        state = self.state
        if self.beyond and state.journal is not None and not self.commits.under_way:
            self.page_out_beyond()
        if state.weight <= self.left // SCARCE:
            self.begun = False
            self.wake = NEVER
            return
        part = SCARCE if self.gate.room.is_scarce(PROCESSES) else 1
        left = self.left // part
        if state.weight <= (left if self.begun else self.above // part):
            self.begun = False
            self.wake = NEVER
            return
        self.begun = True
        if state.journal is None or (self.wake != NEVER and state.now < self.wake):
            return
        before = min(state.weight - left, SLICE)
        if self.commits.under_way:
            self.page_out_read(before)
            return
        self.share_heads()
        self.seen = 0
        queues = self.heaviest()
        excess = before
        for front, head in (False, self.head), (True, self.head), (False, 0), (True, 0):
            if head or left + excess > self.resume:
                excess = self.page_out_of(queues, front, excess, head)
        self.wake = state.now + REST if excess == before and not state.journal else NEVER

    def page_out_read(self, excess: int) -> None:
        """While a commit is under way so much goes of what is in the store already: what consumers have in hand, which
        was read for them. They take more in the time of a commit than there may be.
        """
        if self.state.weight >= self.seen + self.again:
            self.page_out_of(self.heaviest(), True, excess, self.head, spills=False)
            self.seen = self.state.weight

    def heaviest(self) -> list[QueueState]:
        """The heaviest queues first."""
        return sorted(self.state.queues.values(), key=lambda queue: queue.weighed, reverse=True)

    def page_out_of(self, queues: list[QueueState], front: bool, excess: int, head: int, spills: bool = True) -> int:
        """Let so much go of the ends of queues, or their front, but heads of those that have consumers; if it `spills`,
        what the store does not have is written first. How much more is to go.
        """
        for queue in queues:
            if excess <= 0:
                break
            contents, keep = queue.contents, head if queue.ring.consumers else 0
            excess -= contents.page_out_front(excess, keep, spills) if front else contents.page_out(excess, keep)
            self.state.weigh(queue, queue.weight)
        return excess

    def share_heads(self) -> None:
        """All heads together take no more than half of what is to be left."""
        heads = sum(1 for queue in self.state.queues.values() if queue.ring.consumers)
        self.head = min(HEAD, self.left // (2 * max(heads, 1)))

    def watch(self, queue: QueueState) -> None:
        """A queue has more than its window: that goes once it is a piece."""
        weight = queue.weight
        if weight > queue.kept_weight + PIECE:
            self.beyond[queue.id] = queue
        else:
            queue.kept_weight = min(queue.kept_weight, weight)

    def forget(self, queue: QueueState) -> None:
        """A queue lives elsewhere now; it may come back as another one with its id."""
        self.beyond.pop(queue.id, None)

    def page_out_beyond(self) -> None:
        """Let go what is beyond the windows of queues; who has nothing more to let go is done."""
        self.share_heads()
        for queue in list(self.beyond.values()):
            gone, window = 0, queue.window
            if window is not None and queue.id in self.state.queues:
                gone = queue.contents.page_out_beyond(*window, 2 * self.head if queue.ring.consumers else 0)
                self.state.weigh(queue, queue.weight)
            if not gone:
                queue.kept_weight = queue.weight
                del self.beyond[queue.id]

    def look_ahead(self, queue: QueueState) -> None:
        """Have read what the consumers of a queue will want next."""
        contents = queue.contents
        if not contents.paged or contents.reading or not contents.ready or not queue.ring.consumers:
            return
        if self.state.weight > self.resume:
            return  # it would have to go again
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
        if queue.id in self.state.queues:
            self.state.touch(queue)
