"""Which contents of a shard are in memory: the heads of its queues, and the rest as long as there is room.

Contents are paged out above half of the shard's memory, or above a quarter where the memory of the node's processes is
scarce: first from the ends of the largest queues, then unacked messages. If the shard would hold its producers all the
same, even the heads are paged out: consumers may be waiting for their own publishes, and the room they wait for must
not be room that their own messages take up. Of a queue with a window, contents beyond the window are paged out however
much room there is.

Messages that a consumer will want soon are read ahead, but only those that may stay: the head of a queue as far as it
fits below the mark at which producers may go on, and as much again if no paging begins for it. Otherwise paging and
reading ahead would undo each other's work for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
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

# Percent of the shard's memory above which contents are paged out, and at which paging ends.
START_PERCENT, TARGET_PERCENT = 50, 40
# Divisor of both where the memory of the node's processes is scarce.
SCARCE = 2
# Most bytes that stay at the head of a queue with consumers; twice as many are read ahead.
HEAD = 512 * 1024
# Most bytes spilled with one commit.
SLICE = 16 * 1024 * 1024
# Bytes that gather beyond a window before they are paged out: pieces of this size are worth writing.
PIECE = 128 * 1024
# While a commit is in flight, paging is tried each time memory has grown by this fraction of the shard's memory.
RETRY_PART = 32
# Where everything that remains is at heads or unacked, paging is tried again after this many microseconds.
RETRY_US = 100_000


class Paging:
    """Decides which contents leave memory and which return. `limit` sets the shard's memory, in bytes, and `resume`,
    the mark up to which its producers may go on.

    `head` is the number of bytes that stay at the head of a queue with consumers. `wake` is when there may be more to
    do though nothing happens, in microseconds since 1970. `reads` are the segments that the driver of the core is to
    read, `under_way` their memory by queue id, until they are read. `seen` is the memory in use when paging was last
    tried while a commit was in flight. Of queues with contents beyond their window, `kept` is the memory that remained
    when those were last paged out, by queue id. `unreadable` has the segments, by queue id, that could not be read
    ahead: they are tried again when consumers want them.
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
        self.under_way: dict[int, int] = {}
        self.unreadable: dict[int, Segment] = {}
        self.beyond: dict[int, QueueState] = {}
        self.kept: dict[int, int] = {}

    def limit(self, limit: int, resume: int) -> None:
        """Set the memory of the shard, in bytes, and the mark at which its gate opens again."""
        self.resume = resume
        self.retry_step = limit // RETRY_PART
        self.above = min(limit * START_PERCENT // 100, resume)
        self.target = min(limit * TARGET_PERCENT // 100, resume)

    def page_out(self) -> None:
        """Page contents out if they take too much memory. Contents being written can leave only when the commit is
        done.
        """
        state = self.state
        if self.beyond and state.journal is not None and not self.commits.under_way:
            self.page_out_beyond()
        if state.weight <= self.target // SCARCE:
            self.begun = False
            self.wake = NEVER
            return
        target, above = self.marks()
        if state.weight <= (target if self.begun else above):
            self.begun = False
            self.wake = NEVER
            return
        self.begun = True
        if state.journal is None or (self.wake != NEVER and state.now < self.wake):
            return
        before = min(state.weight - target, SLICE)
        if self.commits.under_way:
            self.page_out_read(before)
            return
        self.share_heads()
        self.seen = 0
        queues = self.heaviest()
        rest = self.page_out_both(queues, before, self.head)
        over = target + rest - self.resume
        stuck = self.page_out_both(queues, over, 0) == over and rest == before
        self.wake = state.now + RETRY_US if stuck and not state.journal else NEVER

    def marks(self) -> tuple[int, int]:
        """The memory at which paging ends, and that above which it begins."""
        part = SCARCE if self.gate.room.is_scarce(PROCESSES) else 1
        return self.target // part, self.above // part

    def page_out_read(self, excess: int) -> None:
        """While a commit is in flight: page out unacked messages that the store has, which were read for consumers.

        During a commit consumers may be sent more than fits in memory.
        """
        if self.state.weight >= self.seen + self.retry_step:
            self.page_out_of(self.heaviest(), True, excess, self.head, spills=False)
            self.seen = self.state.weight

    def heaviest(self) -> list[QueueState]:
        """All queues, those that take most memory first."""
        return sorted(self.state.queues.values(), key=lambda queue: queue.weighed, reverse=True)

    def page_out_both(self, queues: list[QueueState], excess: int, head: int) -> int:
        """Page `excess` bytes out of the ends of queues, then out of their fronts; return how much of it remains."""
        for front in (False, True):
            excess = self.page_out_of(queues, front, excess, head)
        return excess

    def page_out_of(self, queues: list[QueueState], front: bool, excess: int, head: int, spills: bool = True) -> int:
        """Page `excess` bytes out of the ends of queues, or of their front, and return how much of it remains.

        A queue with consumers keeps `head` bytes. With `spills`, messages that the store does not have are written
        first.
        """
        for queue in queues:
            if excess <= 0:
                break
            contents, keep = queue.contents, head if queue.ring.consumers else 0
            excess -= contents.page_out_front(excess, keep, spills) if front else contents.page_out(excess, keep)
            self.state.weigh(queue, queue.weight)
        return excess

    def share_heads(self) -> None:
        """Limit all heads together to half of the memory at which paging ends."""
        heads = sum(1 for queue in self.state.queues.values() if queue.ring.consumers)
        self.head = min(HEAD, self.target // (2 * max(heads, 1)))

    def watch(self, queue: QueueState) -> None:
        """Have the contents beyond a queue's window paged out once they make a piece worth writing."""
        weight = queue.weight
        kept = self.kept.get(queue.id, 0)
        if weight > kept + PIECE:
            self.beyond[queue.id] = queue
        else:
            self.kept[queue.id] = min(kept, weight)

    def forget(self, queue: QueueState) -> None:
        """A queue lives elsewhere: it may come back as another object with the same id."""
        self.beyond.pop(queue.id, None)
        self.kept.pop(queue.id, None)
        self.unreadable.pop(queue.id, None)
        self.under_way.pop(queue.id, None)

    def page_out_beyond(self) -> None:
        """Page out contents beyond the windows of queues; a queue with nothing more to page out is done."""
        self.share_heads()
        for queue in list(self.beyond.values()):
            gone, window = 0, queue.window
            if window is not None and queue.id in self.state.queues:
                gone = queue.contents.page_out_beyond(*window, 2 * self.head if queue.ring.consumers else 0)
                self.state.weigh(queue, queue.weight)
            if not gone:
                self.kept[queue.id] = queue.weight
                del self.beyond[queue.id]

    def look_ahead(self, queue: QueueState) -> None:
        """Request reads of the messages, paged out, that the consumers of a queue will want next."""
        contents = queue.contents
        if contents.reading or not contents.ready or not queue.ring.consumers:
            return
        if queue.last_values is not None:
            return  # a message may be replaced while it is read
        used = self.state.weight + sum(self.under_way.values())
        if used > self.resume:
            return
        far = used + 2 * self.head <= self.marks()[1]
        wanted = contents.ahead(contents.first_ready(), 2 * self.head if far else self.head)
        unreadable = self.unreadable.get(queue.id)
        if unreadable in wanted:
            wanted = wanted[: wanted.index(unreadable)]
        weights = list(accumulate(segment.weight() for segment in wanted))
        fitting = bisect_right(weights, self.resume - used)
        if fitting:
            contents.reading = True
            self.under_way[queue.id] = weights[fitting - 1]
            self.reads.append((queue, wanted[:fitting]))

    def were_read(self, queue: QueueState, segments: list[Segment], batches: list[Batch]) -> None:
        """Install the segments requested in `reads`, as far as they could be read."""
        queue.contents.reading = False
        self.under_way.pop(queue.id, None)
        self.unreadable.pop(queue.id, None)
        if len(batches) < len(segments):
            self.unreadable[queue.id] = segments[len(batches)]
        for segment, batch in zip(segments, batches, strict=False):
            queue.contents.install(segment, batch)
        if queue.id in self.state.queues:
            self.state.touch(queue)
