"""The orderly end of a shard whose next incarnation follows at once: it leaves that all messages, not only those that a
restart of the node keeps.

What only memory has is spilled (shard/store/stored.py); the next incarnation of the same run of the node finds it
there. The store need not have known, until now, which messages of such a segment are settled. **Invariant:** a message
of a spilled segment is marked as settled unless it is ready, unacked, leased or to be settled by an undecided
transaction. The acceptors claim the unacked ones, so nothing is delivered that was acked, and nothing else is lost.

Dead letters of such messages that have not reached their queues yet are lost, as when the shard dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.batch.ranges_cy import RangeSet
from shard.contents.segment_cy import Segment
from shard.queue.copying import LINE_BITS
from shard.queue.queue_state import QueueState
from shard.store.journal import Journal
from shard.transactions.prepared import Part
from shard.turns.state import ShardState

EVERYTHING = 1 << 62


def spill_all(state: ShardState, undecided: Iterable[Part], journal: Journal) -> Iterator[int]:
    """Have everything spilled that only memory has, segment by segment; yield the whole bytes of each. `undecided` are
    the parts of transactions.
    """
    for queue in state.queues.values():
        _record(queue, journal)
        live: RangeSet | None = None
        for segment in _in_memory_only(queue):
            if segment.live < segment.count:
                live = _live(state, queue, undecided) if live is None else live
                if _mark_settled(segment, live):
                    continue
            segment.stored = segment.spilled = True
            journal.add(queue.id, segment)
            yield segment.whole


def _record(queue: QueueState, journal: Journal) -> None:
    """Record how far a queue was delivered, and its leases."""
    contents = queue.contents
    if contents.ready + contents.unacked:
        for priority, delivered_to, _, _ in contents.positions():
            journal.lease(queue.id, priority, delivered_to)
    for lease in queue.leases.values():
        journal.put_lease(queue.id, lease.id, lease.record())


def _in_memory_only(queue: QueueState) -> list[Segment]:
    contents = queue.contents
    segments = [
        segment
        for priority, _, end, _ in contents.positions()
        for segment, _, _ in contents.live_from(priority << LINE_BITS, end, EVERYTHING)
    ]
    return [segment for segment in segments if not segment.stored and segment.batch is not None]


def _live(state: ShardState, queue: QueueState, undecided: Iterable[Part]) -> RangeSet:
    """The messages of a queue that are ready or in somebody's hand."""
    live = RangeSet()
    for segment, offset, count in queue.contents.survivors():
        live.add(segment.sequence + offset, count)
    holders = [c.outstanding for link in state.links.values() for c in link.consumers.values()
               if c.queue is queue.contents]  # fmt: skip
    for held in (*holders, *(lease.held for lease in queue.leases.values())):
        for first, end in held.ranges():
            live.add(first, end - first)
    for part in undecided:
        for id, sequence, count, _ in part.settlements:
            if id == queue.id:
                live.add(sequence, count)
    return live


def _mark_settled(segment: Segment, live: RangeSet) -> bool:
    """Mark the messages of a segment that are not live as settled; return whether all are."""
    settled = RangeSet()
    settled.add(segment.sequence, segment.count)
    for first, end in live.ranges():
        settled.remove(first, end - first)
    for first, end in settled.ranges():
        segment.finish(first - segment.sequence, end - first)
    return segment.kept == 0
