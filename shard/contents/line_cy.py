# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The segments of a queue in the order of their numbers; the contents of some are only in the store.

Contents that will not be needed soon are paged out: dropped from memory, or spilled first if the store does not have
them. They are read back when they come near the head (`ahead`), or at once on demand.
"""

from __future__ import annotations

from typing import Any

import cython

from shard.contents.errors import DamagedError, StoreError

if not cython.compiled:
    from penstock.batch.batch_cy import Batch, BatchBuilder
    from shard.contents.segment_cy import Range, Segment

    SEGMENT_WEIGHT = 1100
    MERGED = 65536
    SMALL = 4096


class Line:
    """The `segments` from index `head` on, in ascending order; settled ones are removed in time.

    If the line `merges`, small segments are merged when they are paged out. `paged` is the memory that segments
    without contents would take, `overhead` that of all live segments beside their messages. Where sizes were
    `estimated`, because messages could not be read, byte counts are approximate until the line is empty.
    """

    def __init__(self, id: int, journal: Any) -> None:
        self.id = id
        self.journal = journal
        self.segments: list[Any] = []
        self.head = 0
        self.settled_segments = 0
        self.cursor_segment = 0
        self.merges = True
        self.paged = 0
        self.overhead = 0
        self.estimated = False

    def put(self, segment: Segment) -> int:
        """Append a segment."""
        self.segments.append(segment)
        self.overhead += SEGMENT_WEIGHT
        return 0

    def record_pieces(self, pieces: list[Any] | None) -> int:
        """Record the origins of the last segment's messages."""
        last: Segment = self.segments[len(self.segments) - 1]
        last.pieces = pieces
        return 0

    def find(self, sequence: int) -> int:
        """Index of the segment that holds a sequence number."""
        low = self.head
        high = len(self.segments) - 1
        segment = self.segments[low]
        if segment.sequence + segment.count > sequence:
            return low
        while low < high:
            middle = (low + high + 1) >> 1
            segment = self.segments[middle]
            if segment.sequence <= sequence:
                low = middle
            else:
                high = middle - 1
        return low

    def find_cursor(self, sequence: int) -> int:
        """`find` for the cursor, which only ever moves to the next segment."""
        index = max(self.cursor_segment, self.head)
        segment = self.segments[index]
        if segment.sequence > sequence or segment.sequence + segment.count <= sequence:
            index += 1
            segment = self.segments[index] if index < len(self.segments) else segment
            if segment.sequence > sequence or segment.sequence + segment.count <= sequence:
                index = self.find(sequence)
        self.cursor_segment = index
        return index

    def segment_bytes(self, segment: Segment, offset: int, count: int) -> int:
        """Bytes of the bodies of some messages of a segment; an estimate if they cannot be read."""
        body_bytes: int = segment.body_bytes
        if count < segment.count:
            if segment.batch is None and not self.fetched(segment):
                self.estimated = True
                return body_bytes * count // segment.count
            body_bytes = segment.batch.body_bytes(segment.first + offset, count)
        return body_bytes

    def segment_whole(self, segment: Segment, offset: int, count: int) -> int:
        """Whole bytes of some messages of a segment; an estimate if they cannot be read."""
        whole: int = segment.whole
        if count < segment.count:
            if segment.batch is None and not self.fetched(segment):
                self.estimated = True
                return min(whole * count // segment.count, segment.live_whole)
            whole = segment.batch.whole(segment.first + offset, count)
        return whole

    def range_sizes(self, sequence: int, count: int) -> tuple[int, int]:
        """Bytes of the bodies of some messages, and their whole bytes."""
        total = 0
        whole = 0
        while count > 0:
            segment: Segment = self.segments[self.find(sequence)]
            offset = sequence - segment.sequence
            part = min(count, segment.count - offset)
            total += self.segment_bytes(segment, offset, part)
            whole += self.segment_whole(segment, offset, part)
            sequence += part
            count -= part
        return total, whole

    def batch_of(self, sequence: int) -> Batch:
        """The batch of a message, read from the store if necessary."""
        segment: Segment = self.segments[self.find(sequence)]
        if segment.batch is None:
            self.fetch(segment)
        batch: Batch = segment.batch
        return batch

    def trim(self) -> int:
        """Skip settled segments at the head; once half of the list is settled, remove all settled segments from it.

        This includes those behind a message that stays unacked for long, so that it costs later messages nothing.
        """
        while self.head < len(self.segments):
            segment = self.segments[self.head]
            if segment.live > 0:
                break
            self.segments[self.head] = None
            self.head += 1
        if self.settled_segments > 32 and self.settled_segments * 2 > len(self.segments):
            kept = []
            for index in range(self.head, len(self.segments)):
                segment = self.segments[index]
                if segment.live > 0:
                    kept.append(segment)
            self.segments = kept
            self.head = 0
            self.cursor_segment = 0
            self.settled_segments = 0
        return 0

    def clear(self) -> int:
        """Drop all segments at once."""
        self.segments = []
        self.head = self.settled_segments = self.cursor_segment = 0
        self.paged = self.overhead = 0
        return 0

    # The store

    def buried(self, item: Range, offset: int, count: int) -> None:
        """Dead messages of a range have reached their targets: the store may forget them."""
        if item.segment is not None and item.segment.stored:
            self.unstore(item.segment, item.sequence - item.segment.sequence + offset, count)

    def unstore(self, segment: Segment, offset: int, count: int) -> int:
        """Have the store forget settled messages of a segment."""
        if segment.finish(offset, count):
            segment.stored = False
            self.journal.remove(self.id, segment)
        else:
            self.journal.mark(self.id, segment)
        return 0

    # Paging

    def load(self, segment: Segment) -> Batch:
        """Read contents that only the store has; the segment stays unchanged. Raises StoreError if they cannot be
        read.
        """
        try:
            batch: Batch = self.journal.load(self.id, segment)
        except DamagedError:
            segment.damaged = True
            raise
        return batch

    def fetch(self, segment: Segment) -> int:
        """Read contents that only the store has into the segment."""
        self.install(segment, self.load(segment))
        return 0

    def fetched(self, segment: Segment) -> bool:
        """`fetch`, but return False if the contents cannot be read."""
        try:
            self.fetch(segment)
        except StoreError:
            return False
        return True

    def install(self, segment: Segment, batch: Batch) -> None:
        """Put contents read from the store into a segment, unless it has them already or all its messages are
        settled.
        """
        if segment.batch is None and segment.live > 0:
            segment.batch = batch
            segment.first = 0
            self.paged -= segment.weight()

    def lessen(self, segment: Segment, count: int, whole: int) -> int:
        """Subtract settled messages, with their whole bytes, from a segment."""
        segment.live -= count
        segment.live_whole -= whole
        if segment.batch is None:
            self.paged -= whole
        return 0

    def let_go(self, segment: Segment) -> int:
        """Drop a segment whose messages are all settled."""
        if segment.batch is None:
            self.paged -= segment.weight()
        segment.batch = None
        self.overhead -= SEGMENT_WEIGHT
        self.settled_segments += 1
        self.trim()
        return 0

    def page_out_above(self, below: int, nbytes: int) -> int:
        """Page out about `nbytes` bytes from the end of the line, but no segment that begins with a number up to
        `below`.

        Segments that the store does not have are spilled first, small ones merged, and leave memory at a later call; so
        do small segments that the store has, once they are merged there. Return how much has left or will leave.
        """
        gone = 0
        index = len(self.segments) - 1
        while index >= self.head and gone < nbytes:
            segment = self.segments[index]
            if segment.batch is None or segment.sequence <= below or segment.live < segment.count:
                break
            if segment.nbytes and not self.journal.waits(self.id, segment):
                at = self.merge(index, below)
                if at == index:
                    self.paged += segment.weight()
                    segment.go_out()
                index = at
                segment = self.segments[index]
                gone += segment.weight()
            elif not segment.stored:
                index = self.merge(index, below)
                segment = self.segments[index]
                gone += segment.weight()
                segment.stored = True
                segment.spilled = True
                self.journal.add(self.id, segment)
            index -= 1
        return gone

    def merge(self, index: int, below: int) -> int:
        """Merge a segment with small ones before it, if their numbers are consecutive; return the index of the result.

        Segments that the store has are written once more, so of those only very small ones are merged.
        """
        last = self.segments[index]
        first = index
        nbytes = last.whole
        stored = last.stored
        if stored and (last.spilled or last.weight() > SMALL):
            return index
        while self.merges and first > self.head:
            segment = self.segments[first - 1]
            nbytes += segment.whole
            if (
                nbytes > MERGED
                or (stored and segment.weight() > SMALL)
                or segment.sequence <= below
                or not segment.joins(self.segments[first])
            ):
                break
            first -= 1
        if first == index:
            return index
        builder = BatchBuilder()
        total = whole = 0
        for i in range(first, index + 1):
            segment = self.segments[i]
            builder.extend(segment.batch, segment.first, segment.count)
            total += segment.body_bytes
            whole += segment.whole
            if stored:
                self.journal.remove(self.id, segment)
        segment = self.segments[first]
        merged = Segment(builder.finish(), 0, last.sequence + last.count - segment.sequence, segment.sequence)
        merged.hold(total, whole)
        merged.expiry = last.expiry
        if last.expiries is not None:
            merged.expiries = bytearray()
            for i in range(first, index + 1):
                segment = self.segments[i]
                merged.expiries += segment.expiries
        merged.again = last.again
        if stored:
            merged.stored = True
            self.journal.add(self.id, merged)
        self.segments[first : index + 1] = [merged]
        self.overhead -= SEGMENT_WEIGHT * (index - first)
        return first

    def drop_contents(self, segment: Segment, spills: bool) -> int:
        """Drop the contents of a segment from memory, or, with `spills`, have them spilled; return how much has left or
        will leave. 0 if neither is possible: for a spill no message may be settled.
        """
        if segment.nbytes and not self.journal.waits(self.id, segment):
            self.paged += segment.weight()
            segment.go_out()
        elif spills and not segment.stored and segment.live == segment.count:
            segment.stored = True
            segment.spilled = True
            self.journal.add(self.id, segment)
        else:
            return 0
        return segment.weight()
