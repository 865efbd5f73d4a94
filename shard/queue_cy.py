# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""A queue as a line of batches with a cursor, and what its consumers have in hand.

Every message of a queue has a sequence number, counting up from 0 in the order of arrival. All below the cursor have
been delivered once: they are settled and gone, outstanding with a consumer, or requeued. All from the cursor on are
ready and were never delivered. Requeued ranges go first, so a message returns to its original place.

Nothing here is done a message at a time but the sum of body sizes; states are ranges.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch_cy import Batch
    from penstock.octets import address_readonly, get32, get64
    from penstock.ranges_cy import RangeSet

    C_ACK, C_REQUEUE, C_REJECT = 0, 1, 2
    SETTLED_ROW = 24
    MESSAGE_WEIGHT = 64

UNLIMITED = 1 << 62

# What a settlement does with its deliveries.
SETTLE_ACK = 0
SETTLE_REQUEUE = 1
SETTLE_REJECT = 2


class Segment:
    """Messages of one batch that entered a queue together, the first with the given sequence number.

    `live` counts those not settled yet; at 0 the segment lets go of its batch (`batch` is None).
    """

    def __init__(self, batch: Batch, first: int, count: int, sequence: int) -> None:
        self.batch = batch
        self.first = first
        self.count = count
        self.sequence = sequence
        self.live = count


class Range:
    """Messages taken off a queue: `count` rows of a batch from row `first`, numbered from `sequence`."""

    def __init__(self, batch: Batch, first: int, count: int, sequence: int, redelivered: bool, body_bytes: int) -> None:
        self.batch = batch
        self.first = first
        self.count = count
        self.sequence = sequence
        self.redelivered = redelivered
        self.body_bytes = body_bytes


class Queue:
    """The contents of one queue. Counts are messages, `_bytes` octets of bodies, `published` to `dropped` totals."""

    def __init__(self, id: int, owner: Any) -> None:
        self.id = id
        self.owner = owner
        self.segments: list[Any] = []
        self.head = 0
        self.settled_segments = 0
        self.next_sequence = 0
        self.cursor = 0
        self.cursor_segment = 0
        self.requeued = RangeSet()
        self.ready = 0
        self.ready_bytes = 0
        self.unacked = 0
        self.unacked_bytes = 0
        self.published = 0
        self.delivered = 0
        self.acked = 0
        self.redelivered = 0
        self.dropped = 0

    def enqueue(self, batch: Batch, first: int, count: int) -> int:
        """Append messages; the sequence number of the first."""
        segment = Segment(batch, first, count, self.next_sequence)
        self.segments.append(segment)
        self.next_sequence += count
        body_bytes = batch.body_bytes(first, count)
        self.ready += count
        self.ready_bytes += body_bytes
        self.published += count
        return segment.sequence

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

    def next_ready(self, limit: int) -> tuple[int, int]:
        """The next run of ready messages as (sequence, count), requeued ones first; off the books of what is ready."""
        if self.requeued.total:
            return self.requeued.pop_first(limit)
        sequence = self.cursor
        count = min(limit, self.next_sequence - sequence)
        self.cursor += count
        return sequence, count

    def take(self, count: int, limit: int, settled: bool) -> list[Range]:
        """Take up to `count` ready messages of at most `limit` octets (but always one) from the head, in order.

        With `settled` they are gone at once (no-ack); otherwise they are unacked until `settle` or `requeue`.
        """
        taken: list[Range] = []
        while count > 0 and self.ready > 0:
            redelivered = self.requeued.total > 0
            sequence, high = self.next_ready(count)
            index = self.find(sequence) if redelivered else self.find_cursor(sequence)
            segment = self.segments[index]
            offset = sequence - segment.sequence
            fitting = min(high, segment.count - offset)
            fitting = segment.batch.fit(segment.first + offset, fitting, limit)
            if fitting == 0 and not taken:
                fitting = 1
            if fitting < high:
                if redelivered:
                    self.requeued.add(sequence + fitting, high - fitting)
                else:
                    self.cursor = sequence + fitting
            if fitting == 0:
                break
            body_bytes = segment.batch.body_bytes(segment.first + offset, fitting)
            taken.append(Range(segment.batch, segment.first + offset, fitting, sequence, redelivered, body_bytes))
            count -= fitting
            limit -= body_bytes
            self.ready -= fitting
            self.ready_bytes -= body_bytes
            self.delivered += fitting
            if redelivered:
                self.redelivered += fitting
            if settled:
                self.acked += fitting
                self.forget(sequence, fitting)
            else:
                self.unacked += fitting
                self.unacked_bytes += body_bytes
        return taken

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

    def forget(self, sequence: int, count: int) -> int:
        """Messages are settled for good: count them off their segments; octets of their bodies."""
        total = 0
        while count > 0:
            index = self.find(sequence)
            segment = self.segments[index]
            offset = sequence - segment.sequence
            part = min(count, segment.count - offset)
            total += segment.batch.body_bytes(segment.first + offset, part)
            segment.live -= part
            sequence += part
            count -= part
            if segment.live == 0:
                segment.batch = None
                self.settled_segments += 1
                self.trim()
        return total

    def range_bytes(self, sequence: int, count: int) -> int:
        total = 0
        while count > 0:
            index = self.find(sequence)
            segment = self.segments[index]
            offset = sequence - segment.sequence
            part = min(count, segment.count - offset)
            total += segment.batch.body_bytes(segment.first + offset, part)
            sequence += part
            count -= part
        return total

    def settle(self, sequence: int, count: int) -> None:
        """Unacked messages are done with."""
        body_bytes = self.forget(sequence, count)
        self.unacked -= count
        self.unacked_bytes -= body_bytes
        self.acked += count

    def requeue(self, sequence: int, count: int) -> None:
        """Unacked messages are ready again, in their original place."""
        body_bytes = self.range_bytes(sequence, count)
        self.unacked -= count
        self.unacked_bytes -= body_bytes
        self.ready += count
        self.ready_bytes += body_bytes
        self.requeued.add(sequence, count)

    def drop_head(self, max_count: int, max_bytes: int) -> int:
        """Drop ready messages from the head until at most that many, and that many octets, are left; how many went."""
        dropped = 0
        while self.ready > max_count or (self.ready_bytes > max_bytes and self.ready > 0):
            excess = max(self.ready - max_count, 1)
            for item in self.take(excess, max(self.ready_bytes - max_bytes, 0) if excess == 1 else UNLIMITED, True):
                dropped += item.count
                self.delivered -= item.count
                self.acked -= item.count
                if item.redelivered:
                    self.redelivered -= item.count
        self.dropped += dropped
        return dropped

    def purge(self) -> int:
        """Drop everything that is ready; how many messages went."""
        return self.drop_head(0, 0)

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


class Group:
    """The consumers and gets of a channel, and the prefetch limit they share (basic.qos with global); 0 is no limit.

    Below 0 the limit is the acceptor's to keep, since other shards take part: what may be sent is `granted`, for a turn
    at a time. A group is `hungry` from when its acceptor is told that more could be sent until it grants something.
    `sleepers` are consumers that the limit may keep from being served, in the order in which they fell asleep.
    """

    def __init__(self, limit: int, id: int = 0) -> None:
        self.id = id
        self.limit = limit
        self.outstanding = 0
        self.granted = 0
        self.hungry = False
        self.members: set[Consumer] = set()
        self.sleepers: dict[Consumer, None] = {}


class Consumer:
    """Who takes from a queue: a consumer, or the gets of a channel.

    `window` is how many octets of bodies may still be sent before its acceptor reports that some were written to the
    socket (each message counts MESSAGE_WEIGHT more); `prefetch` 0 is no limit; `link` is its acceptor's. A `cancelled`
    one gets nothing more but may have deliveries in hand; the gets of a channel are one from the start. `channel` is
    the group it belongs to, `group` the one whose limit binds it: gets are not limited. `priority` and `level` are the
    dispatch's; one that came `again` was there in the shard's last life.
    """

    def __init__(self, id: int, queue: Queue, no_ack: bool, prefetch: int, group: Group, link: Any) -> None:
        self.id = id
        self.queue = queue
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.group = group
        self.outstanding = RangeSet()
        self.window = 0
        self.active = True
        self.link = link
        self.cancelled = False
        self.channel = group
        self.priority = 0
        self.level: Any = None
        self.again = False

    def credit(self) -> int:
        """How many messages it may be sent now."""
        if not self.active or self.window <= 0:
            return 0
        if self.no_ack:
            return UNLIMITED
        room = UNLIMITED
        if self.prefetch:
            room = self.prefetch - self.outstanding.total
        if self.group.limit > 0:
            room = min(room, self.group.limit - self.group.outstanding)
        elif self.group.limit < 0:
            room = min(room, self.group.granted)
        return max(room, 0)

    def lacks_grant(self) -> bool:
        """Whether it could be sent more if only its acceptor granted it."""
        if self.no_ack or not self.active or self.window <= 0 or self.group.limit >= 0 or self.group.granted > 0:
            return False
        return self.prefetch == 0 or self.outstanding.total < self.prefetch

    def take(self, count: int) -> list[Range]:
        """Take from the queue within the window."""
        taken = self.queue.take(min(count, self.window // MESSAGE_WEIGHT + 1), self.window, self.no_ack)
        for item in taken:
            self.window -= item.body_bytes + MESSAGE_WEIGHT * item.count
            if not self.no_ack:
                self.hold(item)
        return taken

    def hold(self, item: Range) -> None:
        """Deliveries that were taken off the queue for this consumer are outstanding with it."""
        self.outstanding.add(item.sequence, item.count)
        self.group.outstanding += item.count
        if self.group.limit < 0:
            self.group.granted -= item.count

    def settle(self, sequence: int, count: int, kind: int) -> int:
        """Settle deliveries of this consumer; how many of the range were its own."""
        settled = 0
        for low, part in self.outstanding.remove(sequence, count):
            settled += part
            if kind == C_REQUEUE:
                self.queue.requeue(low, part)
            else:
                self.queue.settle(low, part)
        self.group.outstanding -= settled
        return settled

    def requeue_all(self) -> int:
        """Put everything outstanding back; how many messages."""
        requeued = self.outstanding.total
        for low, high in self.outstanding.ranges():
            self.queue.requeue(low, high - low)
        self.outstanding.clear()
        self.group.outstanding -= requeued
        return requeued


def settle_rows(rows: bytes, consumers: dict[int, Consumer]) -> dict[Consumer, None]:
    """Apply settlements: rows of consumer id (8 octets), sequence (8), count (4) and kind (4), little-endian.

    Rows for consumers that are gone are skipped. Returns the consumers that were touched, in their order.
    """
    touched: dict[Consumer, None] = {}
    p = address_readonly(rows)
    size = len(rows)
    at = 0
    while at + SETTLED_ROW <= size:
        consumer = consumers.get(get64(p, at))
        if consumer is not None:
            settled = consumer.settle(get64(p, at + 8), get32(p, at + 16), get32(p, at + 20))
            if settled:
                touched[consumer] = None
        at += SETTLED_ROW
    return touched
