# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The delay queue of an exchange (router/model/delaying.py): each message leaves when it is due, wherever it stands.

The `expiries` of a segment are the times at which its messages are due; those of messages that have left have the bit
LEFT, so they are later than any time. `expiry` is the next of them. A heap has an entry for each segment, (due,
sequence): it counts as long as the segment begins with that number and is due then, so entries of segments that were
merged or emptied are skipped. Memory is 8 bytes a message, beside the segments, whatever is paged out.

After a restart all messages whose end the store does not know are due as before, those included that had left: their
copies may not have arrived.

No consumer attaches to a delay queue, so nothing is unacked, and the cursor stays behind the last message.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.pointers import address_of_bytearray, get64, put64
    from shard.contents.properties_cy import delay_ms
    from shard.contents.queue_cy import Queue
    from shard.contents.segment_cy import Origin, Range, Segment

    C_DUE = 5
    DEAD, GONE = 2, 3
    LEFT = 1 << 62
    AT_ONCE = 1024 * 1024
    SPARE = 1024

DUE = 5
"""The reason why due messages leave, beside those in `shard.contents.queue_cy`."""


class DelayQueue(Queue):
    """`Queue` for delayed messages. `expire` takes those that are due, about AT_ONCE bytes at a time, and gathers them
    in `dead`.
    """

    def __init__(self, id: int, owner: Any, base: int = 0, journal: Any = None, durable: bool = False) -> None:
        Queue.__init__(self, id, owner, base, journal, durable)
        self.heap: list[tuple[int, int]] = []
        self.began = -1

    def configure(self, ttl: int, keeps_dead: bool, delivery_limit: int) -> None:
        """Keep the own rules: every message has a time, none is dead-lettered or counted."""
        Queue.configure(self, 0, False, -1)

    # Arrivals

    def enqueue(self, batch: Batch, first: int, count: int, now: int = 0, origin: Origin | None = None) -> int:
        """Append messages, delayed from `now` on."""
        sequence = Queue.enqueue(self, batch, first, count, now, origin)
        self.cursor = self.next_sequence
        return sequence

    def stamp(self, segment: Segment, flags: int, now: int) -> int:
        """Record when newly enqueued messages are due."""
        expiries = bytearray(8 * segment.count)
        p = address_of_bytearray(expiries)
        for i in range(segment.count):
            put64(p, 8 * i, now + 1000 * delay_ms(segment.batch, segment.first + i))
        segment.expiries = expiries
        self.schedule(segment, 0)
        return 0

    def recover(self, segments: list[Segment], delivered_to: dict[int, int]) -> None:
        Queue.recover(self, segments, delivered_to)
        self.requeued.clear()
        for segment in segments:
            self.set_left(segment)

    def set_left(self, segment: Segment) -> int:
        """Tell the messages of a recovered segment that wait from those that have left."""
        p = address_of_bytearray(dues(segment))
        for i in range(segment.count):
            put64(p, 8 * i, get64(p, 8 * i) | LEFT)
        for offset, count in segment.wanted():
            for i in range(offset, offset + count):
                put64(p, 8 * i, get64(p, 8 * i) & (LEFT - 1))
        self.schedule(segment, 0)
        return 0

    def adopt(self, sequence: int, batch: Batch, again: bool, expiry: int, expiries: bytearray | None) -> None:
        Queue.adopt(self, sequence, batch, again, expiry, expiries)
        self.requeued.clear()
        self.schedule(self.segments[len(self.segments) - 1], 0)

    def schedule(self, segment: Segment, after: int) -> int:
        """Enter the next time, after another one, at which messages of a segment are due."""
        p = address_of_bytearray(dues(segment))
        soonest = LEFT
        for i in range(segment.count):
            due = get64(p, 8 * i)
            if after < due < soonest:
                soonest = due
        segment.expiry = soonest
        if soonest < LEFT:
            self.expiring = True
            if len(self.heap) > 2 * len(self.segments) + SPARE:
                self.heap = [entry for entry in self.heap if self.segment_due(entry[0], entry[1]) is not None]
                heapify(self.heap)
            heappush(self.heap, (soonest, segment.sequence))
        return 0

    def segment_due(self, due: int, sequence: int) -> Segment | None:
        """The segment of an entry of the heap; None if the entry no longer counts."""
        if self.head >= len(self.segments):
            return None
        segment: Segment = self.segments[self.find(sequence)]
        return segment if segment.sequence == sequence and segment.expiry == due and segment.live > 0 else None

    def merge(self, index: int, below: int) -> int:
        at: int = Queue.merge(self, index, below)
        if at != index:
            self.schedule(self.segments[at], 0)
        return at

    # Departures

    def expire(self, now: int) -> int:
        """Take messages that are due; return how many. Raises StoreError if they cannot be read."""
        self.now = now
        if self.began < 0:
            self.began = now
        taken = spent = 0
        while self.heap and spent < AT_ONCE:
            due, sequence = self.heap[0]
            if due > now:
                break
            segment = self.segment_due(due, sequence)
            if segment is None:
                heappop(self.heap)
                continue
            if segment.batch is None:
                self.fetch(segment)
            before = self.ready_whole
            taken += self.leave(segment, now, DEAD)
            spent += before - self.ready_whole
            heappop(self.heap)
            self.schedule(segment, now)
        self.expiring = len(self.heap) > 0
        return taken

    def leave(self, segment: Segment, until: int, fate: int) -> int:
        """Remove the messages of a segment that are due until then: DEAD if they are to be routed, or GONE; return how
        many.
        """
        total = 0
        for offset, count in due_until(segment, until):
            self.remove(segment, offset, count, fate)
            total += count
        return total

    def remove(self, segment: Segment, offset: int, count: int, fate: int) -> int:
        """Remove waiting messages of a segment, and mark them as LEFT."""
        sequence = segment.sequence + offset
        p = address_of_bytearray(dues(segment))
        due = get64(p, 8 * offset)
        for i in range(offset, offset + count):
            put64(p, 8 * i, get64(p, 8 * i) | LEFT)
        if fate == DEAD:
            body_bytes = segment.batch.body_bytes(segment.first + offset, count)
            again = sequence < self.own_from and due <= self.began
            item = Range(segment.batch, segment.first + offset, count, sequence, again, body_bytes)
            if segment.stored:
                item.segment = segment
            self.dead.append((C_DUE, item))
            self.totals.delivered += count
            self.totals.delivered_bytes += body_bytes
            self.totals.acked += count
        else:
            self.totals.dropped += count
        body_bytes, whole = self.forget(sequence, count, fate)
        self.ready -= count
        self.ready_bytes -= body_bytes
        self.ready_whole -= whole
        if self.estimated:
            self.correct()
        return 0

    def next_expiry(self) -> int:
        """When the next message is due, or a time before; NEVER without messages."""
        return self.heap[0][0] if self.heap else 1 << 62

    def drop(self, count: int, limit: int, reason: int) -> int:
        """Drop the messages that arrived first, as `Queue.drop`."""
        dropped = 0
        while dropped < count and self.ready and (limit > 0 or dropped == 0):
            segment: Segment = self.segments[self.head]
            if segment.live == 0:
                self.trim()
                continue
            before = self.ready_bytes
            dropped += self.drop_first(segment, count - dropped, limit)
            limit -= before - self.ready_bytes
        return dropped

    def drop_first(self, segment: Segment, count: int, limit: int) -> int:
        """Drop the first run of waiting messages of a segment, at most `count`; return how many."""
        offset, run = due_until(segment, LEFT - 1)[0]
        dropped = 1 if limit < segment.body_bytes else min(run, count)
        self.remove(segment, offset, dropped, GONE)
        return dropped

    def drop_damaged(self) -> int:
        dropped = 0
        for segment in list(self.segments):
            if segment is not None and segment.live > 0 and segment.damaged:
                dropped += self.leave(segment, LEFT - 1, GONE)
        return dropped

    # As a line: all live messages are ready

    def first_ready(self) -> int:
        for index in range(self.head, len(self.segments)):
            segment = self.segments[index]
            if segment is not None and segment.live > 0:
                first: int = segment.sequence
                return first
        return self.cursor

    def has_ready(self, segment: Segment) -> bool:
        return segment.live > 0

    def survivors(self) -> list[tuple[Segment, int, int]]:
        found: list[tuple[Segment, int, int]] = []
        for index in range(self.head, len(self.segments)):
            segment = self.segments[index]
            if segment is not None and segment.live > 0:
                for offset, count in due_until(segment, LEFT - 1):
                    found.append((segment, offset, count))
        return found

    def pop_onto(self, taken: list[Range], count: int, limit: int, settled: bool) -> int:
        return 0

    def claim(self, sequence: int, count: int) -> list[tuple[int, int]]:
        return []

    def page_out(self, nbytes: int, keep: int) -> int:
        return self.page_out_above(self.base - 1, nbytes)

    def page_out_beyond(self, count: int, nbytes: int, least: int) -> int:
        """Page out what exceeds a window, the latest arrivals first."""
        excess = self.ready_whole - nbytes
        if self.ready > count:
            excess = max(excess, self.ready_whole // self.ready * (self.ready - count))
        excess -= self.paged
        return self.page_out_above(self.base - 1, excess) if excess > 0 else 0

    def close(self) -> None:
        Queue.close(self)
        self.heap = []


def dues(segment: Segment) -> bytearray:
    """The times at which the messages of a segment are due."""
    expiries = segment.expiries
    assert expiries is not None
    return expiries


def due_until(segment: Segment, until: int) -> list[tuple[int, int]]:
    """(offset, count) of the runs of waiting messages of a segment that are due until then."""
    runs = []
    p = address_of_bytearray(dues(segment))
    i = 0
    while i < segment.count:
        start = i
        while i < segment.count and get64(p, 8 * i) <= until:
            i += 1
        if start < i:
            runs.append((start, i - start))
        i += 1
    return runs
