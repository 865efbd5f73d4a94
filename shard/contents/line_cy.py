# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The segments of a queue in the order of their numbers; the contents of some are only in the store.

What is not wanted soon is paged out: its contents go, or go to the spill if nothing else has them, and come back when
they are near the head (`ahead`), or at once when somebody needs them.
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
    """`segments` from `head` on, each with higher numbers than the one before. Those settled are let go of in time.

    Where it `merges`, small ones are made one when they are paged out. `paged` is what segments whose contents are not
    in memory would weigh there, `overhead` what all that are not settled weigh beside their messages. Where sizes were
    `estimated`, because messages could not be read, octets are about right until it is empty.
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
        """A segment more."""
        self.segments.append(segment)
        self.overhead += SEGMENT_WEIGHT
        return 0

    def note_pieces(self, pieces: list[Any] | None) -> int:
        """Where the messages of the last segment came from."""
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
        """Octets of the bodies of some messages of a segment; about so many if they cannot be read."""
        body_bytes: int = segment.body_bytes
        if count < segment.count:
            if segment.batch is None and not self.fetched(segment):
                self.estimated = True
                return body_bytes * count // segment.count
            body_bytes = segment.batch.body_bytes(segment.first + offset, count)
        return body_bytes

    def segment_whole(self, segment: Segment, offset: int, count: int) -> int:
        """What some messages of a segment count whole; about so much if they cannot be read."""
        whole: int = segment.whole
        if count < segment.count:
            if segment.batch is None and not self.fetched(segment):
                self.estimated = True
                return min(whole * count // segment.count, segment.live_whole)
            whole = segment.batch.whole(segment.first + offset, count)
        return whole

    def range_sizes(self, sequence: int, count: int) -> tuple[int, int]:
        """Octets of the bodies of some messages, and what they count whole."""
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
        """The batch that a message of the queue is of."""
        segment: Segment = self.segments[self.find(sequence)]
        if segment.batch is None:
            self.fetch(segment)
        batch: Batch = segment.batch
        return batch

    def trim(self) -> int:
        """Step over settled segments at the head; once half of the list is settled, keep only the others.

        Also those behind a message that stays unacked for long: it must not cost what passes it by.
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
        """Let go of all segments at once."""
        self.segments = []
        self.head = self.settled_segments = self.cursor_segment = 0
        self.paged = self.overhead = 0
        return 0

    # The store

    def buried(self, item: Range, offset: int, count: int) -> None:
        """Dead messages, counted from the first of the range, are where they go: the store may forget them."""
        if item.segment is not None and item.segment.stored:
            self.unstore(item.segment, item.sequence - item.segment.sequence + offset, count)

    def unstore(self, segment: Segment, offset: int, count: int) -> int:
        if segment.finish(offset, count):
            segment.stored = False
            self.journal.remove(self.id, segment)
        else:
            self.journal.mark(self.id, segment)
        return 0

    # Paging

    def load(self, segment: Segment) -> Batch:
        """What only the store has of a segment, which stays as it is. StoreError if it cannot be read."""
        try:
            batch: Batch = self.journal.load(self.id, segment)
        except DamagedError:
            segment.damaged = True
            raise
        return batch

    def fetch(self, segment: Segment) -> int:
        """Have the store give back what only it has."""
        self.install(segment, self.load(segment))
        return 0

    def fetched(self, segment: Segment) -> bool:
        """`fetch` where it is no error that it cannot be done: then False."""
        try:
            self.fetch(segment)
        except StoreError:
            return False
        return True

    def install(self, segment: Segment, batch: Batch) -> None:
        """The contents of a segment are in memory again, unless they were already, or nobody needs them any more."""
        if segment.batch is None and segment.live > 0:
            segment.batch = batch
            segment.first = 0
            self.paged -= segment.weight()

    def lessen(self, segment: Segment, count: int, whole: int) -> int:
        """So many of its messages, which count so much, are settled."""
        segment.live -= count
        segment.live_whole -= whole
        if segment.batch is None:
            self.paged -= whole
        return 0

    def let_go(self, segment: Segment) -> int:
        """All its messages are settled."""
        if segment.batch is None:
            self.paged -= segment.weight()
        segment.batch = None
        self.overhead -= SEGMENT_WEIGHT
        self.settled_segments += 1
        self.trim()
        return 0

    def page_out_above(self, below: int, octets: int) -> int:
        """Let so much go out of memory, from the end on: not the segments that begin with numbers up to `below`.

        What the store does not have yet is spilled first, small ones together, and goes another time; so does what it
        has in small ones, once it has them together. How much went, or will.
        """
        gone = 0
        index = len(self.segments) - 1
        while index >= self.head and gone < octets:
            segment = self.segments[index]
            if segment.batch is None or segment.sequence <= below or segment.live < segment.count:
                break
            if segment.octets and not self.journal.waits(self.id, segment):
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
        """Make one of the segment at an index and small ones before it that go on without a gap; where it is then.

        What the store has is written once more, so that goes for very small ones only.
        """
        last = self.segments[index]
        first = index
        octets = last.whole
        stored = last.stored
        if stored and (last.spilled or last.weight() > SMALL):
            return index
        while self.merges and first > self.head:
            segment = self.segments[first - 1]
            octets += segment.whole
            if (
                octets > MERGED
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
        merged.again = last.again
        if stored:
            merged.stored = True
            self.journal.add(self.id, merged)
        self.segments[first : index + 1] = [merged]
        self.overhead -= SEGMENT_WEIGHT * (index - first)
        return first

    def drop_contents(self, segment: Segment, spills: bool) -> int:
        """Let the contents of one segment go, or, if it `spills`, have them spilled; how much went, or will. 0 where
        neither can be: of what the store does not have it must know which messages are settled.
        """
        if segment.octets and not self.journal.waits(self.id, segment):
            self.paged += segment.weight()
            segment.go_out()
        elif spills and not segment.stored and segment.live == segment.count:
            segment.stored = True
            segment.spilled = True
            self.journal.add(self.id, segment)
        else:
            return 0
        return segment.weight()

    def reach(self, sequence: int, octets: int) -> int:
        """The first number of the segment that ends so many octets from a message on; -1 if there is nothing."""
        if self.head >= len(self.segments):
            return -1
        index = self.find(sequence)
        while index < len(self.segments) - 1 and octets > 0:
            segment = self.segments[index]
            if segment is not None:
                octets -= segment.weight()
            index += 1
        last = self.segments[index]
        number: int = last.sequence
        return number
