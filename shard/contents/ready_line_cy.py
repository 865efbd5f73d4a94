# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""A line with a cursor: which messages are ready, how many and how large, and which contents may leave memory.

Every message has a sequence number, counting up from `base` in the order of arrival. All below the cursor have been
delivered once: they are settled and gone, unacked, or requeued. All from the cursor on are ready and were never
delivered. Requeued ranges go first, so a message returns to its original place.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.ranges_cy import RangeSet
    from shard.contents.line_cy import Line
    from shard.contents.segment_cy import Segment

    LEASE = 16384
    LINE_BITS = 48


class ReadyLine(Line):
    """Counts are of messages, `_bytes` are bytes of bodies, `_whole` whole bytes (`Batch.whole`).

    Requeued messages from `unseen_from` up to `unseen_to` were never delivered: they come from the store of an earlier
    incarnation. To tell them from delivered ones later, the journal of a `durable` line records ahead that messages
    below `leased` may have been delivered.
    """

    def __init__(self, id: int, base: int, journal: Any, durable: bool) -> None:
        """`base` is the first sequence number."""
        Line.__init__(self, id, journal)
        self.durable = durable
        self.base = base
        self.next_sequence = base
        self.cursor = base
        self.unseen_from = base
        self.unseen_to = base
        self.leased = base
        self.requeued = RangeSet()
        self.ready = 0
        self.ready_bytes = 0
        self.ready_whole = 0
        self.unacked = 0
        self.unacked_bytes = 0
        self.unacked_whole = 0

    def is_ready(self, sequence: int) -> bool:
        """Whether a message that was enqueued is ready, for the first time or after a requeue."""
        return sequence >= self.cursor or self.requeued.holds(sequence)

    def first_ready(self) -> int:
        """The sequence number of the ready message at the head, or of the next to arrive."""
        return self.requeued.first() if self.requeued.total else self.cursor

    def next_ready(self, limit: int) -> tuple[int, int]:
        """Pop the next run of ready messages from the ranges, requeued ones first; return (sequence, count)."""
        if self.requeued.total:
            sequence = self.requeued.first()
            if sequence < self.unseen_from:
                limit = min(limit, self.unseen_from - sequence)
            return self.requeued.pop_first(limit)
        sequence = self.cursor
        count = min(limit, self.next_sequence - sequence)
        self.cursor += count
        return sequence, count

    def put_next(self, requeued: bool, sequence: int, count: int) -> int:
        """Return the last messages of a run from `next_ready` to the ready ones."""
        if requeued:
            self.requeued.add(sequence, count)
        else:
            self.cursor = sequence
        return 0

    def survivors(self) -> list[tuple[Segment, int, int]]:
        """All ready messages, in order: (segment, first message in it, count)."""
        found: list[tuple[Segment, int, int]] = []
        ready = self.ready_ranges()
        at = 0
        for index in range(self.head, len(self.segments)):
            segment = self.segments[index]
            if segment is None or segment.live == 0:
                continue
            start = segment.sequence
            end = start + segment.count
            while at < len(ready):
                low, high = ready[at]
                if low >= end:
                    break
                if high > start:
                    low = max(low, start)
                    found.append((segment, low - start, min(high, end) - low))
                if high > end:
                    break
                at += 1
        return found

    def ready_ranges(self) -> list[tuple[int, int]]:
        """The numbers of the ready messages, in order: (first, end)."""
        ranges = self.requeued.ranges()
        if self.cursor < self.next_sequence:
            ranges.append((self.cursor, self.next_sequence))
        return ranges

    def live_from(self, sequence: int, end: int, nbytes: int) -> list[tuple[Segment, int, int]]:
        """The messages from a number up to an end of segments that are not settled whole, about `nbytes` whole bytes:
        (segment, first message in it, count). Some may be settled.
        """
        found: list[tuple[Segment, int, int]] = []
        if self.head >= len(self.segments):
            return found
        index = self.find(sequence)
        while index < len(self.segments) and nbytes > 0:
            segment = self.segments[index]
            if segment.sequence >= end:
                break
            low = max(segment.sequence, sequence)
            high = min(segment.sequence + segment.count, end)
            if segment.live > 0 and low < high:
                found.append((segment, low - segment.sequence, high - low))
                nbytes -= segment.whole
            index += 1
        return found

    def put_back(self, sequence: int, count: int) -> int:
        """Move unacked messages back to the ready ones, without counting a redelivery."""
        body_bytes, whole = self.range_sizes(sequence, count)
        self.unacked -= count
        self.unacked_bytes -= body_bytes
        self.unacked_whole -= whole
        self.ready += count
        self.ready_bytes += body_bytes
        self.ready_whole += whole
        self.requeued.add(sequence, count)
        if self.estimated:
            self.correct()
        return 0

    def size_of(self, sequence: int, count: int) -> int:
        """The whole bytes of unacked messages."""
        return self.range_sizes(sequence, count)[1]

    def correct(self) -> int:
        """Correct sums of estimated sizes: none is negative, and without messages all are 0."""
        if self.ready == 0 or self.ready_bytes < 0:
            self.ready_bytes = 0
        if self.ready == 0 or self.ready_whole < 0:
            self.ready_whole = 0
        if self.unacked == 0 or self.unacked_bytes < 0:
            self.unacked_bytes = 0
        if self.unacked == 0 or self.unacked_whole < 0:
            self.unacked_whole = 0
        self.estimated = self.ready + self.unacked > 0
        return 0

    # Deliveries, as the store knows of them

    def position(self) -> int:
        """The number from which on no message was ever delivered."""
        return self.unseen_from if self.unseen_from < self.unseen_to else self.cursor

    def extend_lease(self) -> int:
        """Record ahead how far deliveries may come."""
        if self.position() > self.leased - LEASE // 2:
            self.leased = self.position() + LEASE
            self.journal.lease(self.id, self.base >> LINE_BITS, self.leased)
        return 0

    def record_position(self) -> None:
        """Record exactly how far deliveries came, since this incarnation delivers nothing more."""
        if self.durable and self.ready + self.unacked > 0:
            self.journal.lease(self.id, self.base >> LINE_BITS, self.position())

    # Paging

    def weight(self) -> int:
        """The memory that the contents take, in bytes."""
        weight: int = self.ready_whole + self.unacked_whole + self.overhead - self.paged
        return 0 if self.estimated and weight < 0 else weight

    def page_out(self, nbytes: int, keep: int) -> int:
        """Page out `nbytes` bytes (`page_out_above`), but keep `keep` bytes from the head on."""
        below = self.cursor - 1
        if keep > 0 and self.ready > 0:
            below = max(below, self.reach(self.first_ready(), keep))
        return self.page_out_above(below, nbytes)

    def page_out_beyond(self, count: int, nbytes: int, least: int) -> int:
        """Page out contents beyond a number of ready messages, or of bytes, from the head on, but keep `least` bytes;
        return how much has left or will leave (`page_out_above`).
        """
        if self.ready == 0:
            return 0
        first = self.first_ready()
        below = first + count - 1 if count < 1 << 62 else 1 << 62
        if nbytes < 1 << 62:
            below = min(below, self.reach(first, nbytes))
        if least > 0:
            below = max(below, self.reach(first, least))
        return self.page_out_above(max(below, self.cursor - 1), 1 << 62)

    def page_out_front(self, nbytes: int, keep: int, spills: bool) -> int:
        """Page out segments that are not at the end of the line: unacked, requeued, or read ahead.

        `keep` bytes of ready messages stay, from the head on. Contents that the store does not have are paged out only
        with `spills`. Return how much has left or will leave.
        """
        gone = 0
        index = self.head
        below = self.reach(self.first_ready(), keep) if keep > 0 and self.ready > 0 else -1
        there = self.weight()
        while index < len(self.segments) and gone < nbytes and there > 0:
            segment = self.segments[index]
            index += 1
            if segment is None or segment.batch is None or segment.live == 0:
                continue
            there -= segment.weight()
            if segment.sequence > below or not self.has_ready(segment):
                gone += self.drop_contents(segment, spills)
                if segment.spilled:
                    self.extend_lease()
        return gone

    def has_ready(self, segment: Segment) -> bool:
        """Whether any message of a segment is ready."""
        end: int = segment.sequence + segment.count
        return end > self.cursor or (self.requeued.total > 0 and self.requeued.meets(segment.sequence, end))

    def reach(self, sequence: int, nbytes: int) -> int:
        """Return the first number of the segment that is `nbytes` of segments with ready messages beyond a message; -1
        if the line is empty.
        """
        if self.head >= len(self.segments):
            return -1
        index = self.find(sequence)
        while index < len(self.segments) - 1 and nbytes > 0:
            segment = self.segments[index]
            if segment is not None and segment.live > 0 and self.has_ready(segment):
                nbytes -= segment.weight()
            index += 1
        last = self.segments[index]
        number: int = last.sequence
        return number

    def ahead(self, sequence: int, nbytes: int) -> list[Segment]:
        """Return the segments without contents that have ready messages, up to the `reach` of a message."""
        wanted: list[Segment] = []
        if self.head >= len(self.segments):
            return wanted
        index = self.find(sequence)
        while index < len(self.segments) and nbytes > 0:
            segment = self.segments[index]
            if segment is not None and segment.live > 0 and self.has_ready(segment):
                if segment.batch is None:
                    wanted.append(segment)
                nbytes -= segment.weight()
            index += 1
        return wanted
