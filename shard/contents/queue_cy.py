# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""A queue: messages arrive in a line with a cursor (`ready_line_cy`), are delivered from it, and depart.

Messages expire at the head: an expired message takes up no room, but is removed only there, as in RabbitMQ. Messages
that arrived after the last call of `offered` do not expire: a TTL of 0 means "unless deliverable at once".

Ordinarily nothing here is done a message at a time but the sum of body sizes; states are ranges. Expirations of single
messages and delivery counts are kept where there are any.
"""

from __future__ import annotations

from typing import Any

import cython

from penstock.batch.ranges_cy import RangeSet
from shard.contents.errors import StoreError

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.pointers import address_of_bytearray, get64, put64
    from shard.contents.properties_cy import expiration_ms
    from shard.contents.ready_line_cy import ReadyLine
    from shard.contents.segment_cy import Origin, Range, Segment
    from shard.contents.totals_cy import Totals

    C_PERSISTENT = 1
    C_HAS_EXPIRATION = 4
    C_SENT_AGAIN = 256
    KEPT, DONE, DEAD, GONE = 0, 1, 2, 3
    LINE_BITS = 48
    C_EXPIRED, C_REJECTED, C_MAXLEN, C_DELIVERY_LIMIT, C_PURGED = 0, 1, 2, 3, 4

UNLIMITED = 1 << 62
NEVER = 1 << 62
"""The expiry of messages that do not expire, in microseconds since 1970 as all times here."""

# Reasons why messages left a queue, other than settlement by a consumer.
EXPIRED, REJECTED, MAXLEN, DELIVERY_LIMIT, PURGED = range(5)


class Queue(ReadyLine):
    """The contents of one queue. `published` to `dropped` are totals, `_bytes` are bytes of bodies.

    `dead` gathers (reason, Range) of dropped and rejected messages, in order, while `keeps_dead` is set; the shard
    pops them, and calls `buried` when the store may forget them.

    If the queue is `durable`, persistent messages and their fate are recorded in its journal. While the queue is
    `reading` ahead, a delivery ends where contents are not in memory.

    The queue records departures for the publisher (`Source.left`) if confirms may be withheld: always while it is
    `stopped`, otherwise if the publisher has not received the report of the messages yet and might learn of a stop
    first.
    """

    def __init__(self, id: int, owner: Any, base: int = 0, journal: Any = None, durable: bool = False) -> None:
        """`base` is the first sequence number; persistent messages are stored if the queue is durable."""
        ReadyLine.__init__(self, id, base, journal, durable)
        self.reading = False
        self.owner = owner
        self.own_from = base
        self.totals = Totals()
        self.ttl = -1
        self.now = 0
        self.expiring = False
        self.fresh = base
        self.keeps_dead = False
        self.dead: list[tuple[int, Range]] = []
        self.delivery_limit = -1
        self.deliveries: dict[int, int] = {}
        self.stopped = False

    def stop(self, stopped: bool) -> None:
        """Set whether the queue is saturated."""
        self.stopped = stopped

    def configure(self, ttl: int, keeps_dead: bool, delivery_limit: int) -> None:
        """Set the TTL in microseconds and the number of times a message may be requeued; -1 is no limit."""
        self.ttl = ttl
        self.keeps_dead = keeps_dead
        self.delivery_limit = delivery_limit
        if delivery_limit < 0:
            self.deliveries.clear()

    def take_dead(self) -> list[tuple[int, Range]]:
        """Remove and return the messages gathered in `dead`."""
        dead = self.dead
        self.dead = []
        return dead

    def came_back(self, sequence: int, deliveries: int) -> None:
        """Restore a recovered message's delivery count."""
        self.deliveries[sequence] = deliveries

    def delivery_count(self, sequence: int) -> int:
        """How often an unacked or requeued message was requeued, if there is a delivery limit."""
        return self.deliveries.get(sequence, 0)

    def enqueue(self, batch: Batch, first: int, count: int, now: int = 0, origin: Origin | None = None) -> int:
        """Append messages, which are rows of their origin if it is given; return the sequence number of the first."""
        segment = Segment(batch, first, count, self.next_sequence)
        segment.origin = origin
        segment.row = first
        self.put(segment)
        self.next_sequence += count
        body_bytes, flags = batch.survey(first, count)
        whole = batch.whole(first, count)
        segment.hold(body_bytes, whole)
        segment.again = flags & C_SENT_AGAIN > 0
        if self.durable and flags & C_PERSISTENT:
            segment.stored = True
            self.journal.add(self.id, segment)
        if self.ttl >= 0 or flags & C_HAS_EXPIRATION:
            self.stamp(segment, flags, now)
        self.ready += count
        self.ready_bytes += body_bytes
        self.ready_whole += whole
        self.totals.published += count
        self.totals.published_bytes += body_bytes
        return segment.sequence

    def newest(self, batch: Batch, row: int) -> int:
        """The sequence number of a message that was enqueued just now."""
        return self.next_sequence - 1

    def stamp(self, segment: Segment, flags: int, now: int) -> int:
        """Record when newly enqueued messages expire: after the smaller of the queue's TTL and their own."""
        self.expiring = True
        if self.ttl >= 0:
            segment.expiry = now + self.ttl
        if flags & C_HAS_EXPIRATION:
            expiries = bytearray(8 * segment.count)
            p = address_of_bytearray(expiries)
            for i in range(segment.count):
                own = expiration_ms(segment.batch, segment.first + i)
                put64(p, 8 * i, segment.expiry if own < 0 else min(segment.expiry, now + own * 1000))
            segment.expiries = expiries
        return 0

    def replace(self, sequence: int, batch: Batch, now: int) -> bool:
        """Put a batch of one message in the place of a ready one; False if that one is not ready, or not alone.

        The replaced message counts as dropped.
        """
        if not self.is_ready(sequence):
            return False
        segment = self.segments[self.find(sequence)]
        if segment.count > 1:
            return False
        if segment.batch is None:
            self.paged -= segment.weight()
        self.ready_bytes -= segment.body_bytes
        self.ready_whole -= segment.whole
        body_bytes, flags = batch.survey(0, 1)
        segment.batch = batch
        segment.first = 0
        segment.hold(body_bytes, batch.whole(0, 1))
        segment.again = flags & C_SENT_AGAIN > 0
        if segment.stored:
            self.journal.remove(self.id, segment)
            segment.stored = segment.spilled = False
        if self.durable and flags & C_PERSISTENT:
            segment.stored = True
            self.journal.add(self.id, segment)
        segment.expiry = 1 << 62
        segment.expiries = None
        if self.ttl >= 0 or flags & C_HAS_EXPIRATION:
            self.stamp(segment, flags, now)
        self.ready_bytes += body_bytes
        self.ready_whole += segment.whole
        self.totals.published += 1
        self.totals.published_bytes += body_bytes
        self.totals.dropped += 1
        return True

    def pop(self, count: int, limit: int, settled: bool) -> list[Range]:
        """Pop up to `count` ready messages of at most `limit` whole bytes (but always one) from the head, in order.

        With `settled` they are removed at once (no-ack); otherwise they are unacked until `settle` or `requeue`.
        """
        taken: list[Range] = []
        self.pop_onto(taken, count, limit, settled)
        return taken

    def pop_onto(self, taken: list[Range], count: int, limit: int, settled: bool) -> int:
        """`pop`, appending to messages popped before, which must leave room in the limit; return the whole bytes
        popped.
        """
        if not self.expiring:
            return self.pick(taken, count, limit, DONE if settled else KEPT)[1]
        total_spent = 0
        while count > 0:
            self.expire(self.now)
            if self.ready == 0:
                break
            run = min(self.head_run(False), count)
            picked, nbytes = self.pick(taken, run, limit, DONE if settled else KEPT)
            count -= picked
            limit -= nbytes
            total_spent += nbytes
            if picked < run:
                break
        return total_spent

    def pick(self, taken: list[Range], count: int, limit: int, fate: int) -> tuple[int, int]:
        """`pop` without regard to expiry, appending to `taken`; return the number of messages and how much of the
        limit they use: whole bytes for KEPT and DONE, bytes of bodies for DEAD and GONE.

        `fate`: KEPT = unacked; DONE = removed (no-ack); DEAD = to be dead-lettered; GONE = discarded unread.
        """
        total = 0
        total_spent = 0
        while count > 0 and self.ready > 0:
            requeued = self.requeued.total > 0
            sequence, high = self.next_ready(count)
            index = self.find(sequence) if requeued else self.find_cursor(sequence)
            segment = self.segments[index]
            offset = sequence - segment.sequence
            least = 0 if taken or total > 0 else 1
            try:
                fitting = self.fitting(segment, offset, min(high, segment.count - offset), limit, least, fate)
            except StoreError:
                self.put_next(requeued, sequence, high)
                if least:
                    raise
                break
            if fitting < high:
                self.put_next(requeued, sequence + fitting, high - fitting)
            if fitting == 0:
                break
            redelivered = segment.again
            if requeued:
                if self.unseen_from <= sequence < self.unseen_to:
                    self.unseen_from = sequence + fitting
                else:
                    redelivered = True
            body_bytes = self.segment_bytes(segment, offset, fitting)
            whole = self.segment_whole(segment, offset, fitting)
            spent = whole if fate < DEAD else body_bytes
            if fate != GONE:
                item = Range(segment.batch, segment.first + offset, fitting, sequence, redelivered, body_bytes)
                if segment.stored:
                    item.segment = segment
                taken.append(item)
            count -= fitting
            limit -= spent
            total += fitting
            total_spent += spent
            self.ready -= fitting
            self.ready_bytes -= body_bytes
            self.ready_whole -= whole
            self.totals.delivered += fitting
            self.totals.delivered_bytes += body_bytes
            if redelivered and fate < DEAD:
                self.totals.redelivered += fitting
            if fate != KEPT:
                self.totals.acked += fitting
                self.forget(sequence, fitting, fate)
            else:
                self.unacked += fitting
                self.unacked_bytes += body_bytes
                self.unacked_whole += whole
            if segment.stored:
                self.extend_lease()
        if self.estimated:
            self.correct()
        return total, total_spent

    def fitting(self, segment: Segment, offset: int, count: int, limit: int, least: int, fate: int) -> int:
        """How many of `count` messages of a segment are within `limit`, as in `pick`, but at least `least`.

        0 while they are being read. Raises StoreError if they cannot be read.
        """
        if segment.batch is None:
            if fate == GONE and (segment.damaged or (count == segment.count and segment.body_bytes <= limit)):
                return count
            if self.reading and fate == KEPT:
                return 0
            self.fetch(segment)
        if fate < DEAD:
            fits: int = segment.batch.fit_whole(segment.first + offset, count, limit)
        else:
            fits = segment.batch.fit(segment.first + offset, count, limit)
        return max(fits, least)

    def awaits_read(self) -> bool:
        """Whether the next ready message is being read ahead."""
        return self.reading and len(self.ahead(self.first_ready(), 1)) > 0

    # An earlier incarnation

    def recover(self, segments: list[Segment], delivered_to: dict[int, int]) -> None:
        """Recover segments of an earlier incarnation, in order, into an empty queue; `kept` messages of each are ready.

        Those below `delivered_to` (by priority, here only 0) may have been delivered.
        """
        for segment in segments:
            self.put(segment)
            self.next_sequence = max(self.next_sequence, segment.sequence + segment.count)
            segment.live = segment.kept
            segment.live_whole = segment.whole
            self.paged += segment.weight()
            body_bytes = whole = 0
            if segment.unwanted is not None:
                self.bury_again(segment)
            for offset, count in segment.wanted():
                self.requeued.add(segment.sequence + offset, count)
                self.unseen_to = segment.sequence + offset + count
                body_bytes += self.segment_bytes(segment, offset, count)
                whole += self.segment_whole(segment, offset, count)
            if segment.live_whole != whole:
                self.lessen(segment, 0, segment.live_whole - whole)
            self.ready += segment.live
            self.ready_bytes += body_bytes
            self.ready_whole += whole
            if segment.expiries is not None or segment.expiry < NEVER:
                self.expiring = True
        self.cursor = self.fresh = self.own_from = self.next_sequence
        self.leased = delivered_to.get(0, 0)
        self.unseen_from = min(self.leased, self.unseen_to) if self.requeued.total else self.unseen_to

    def bury_again(self, segment: Segment) -> int:
        """Bury messages rejected in an earlier incarnation; if they cannot be read, they become ready."""
        rejected = segment.rejected()
        if self.keeps_dead and rejected and not self.fetched(segment):
            segment.unwanted = None
            return 0
        for offset, count in rejected:
            self.lessen(segment, count, self.segment_whole(segment, offset, count))
            if self.keeps_dead:
                self.bury(segment.sequence + offset, count, C_REJECTED)
            else:
                self.unstore(segment, offset, count)
        if segment.live == 0:
            self.let_go(segment)
        return 0

    # Moving to another shard

    def give_back(self, sequence: int, count: int) -> None:
        """Make unacked messages ready in their original place, without counting a redelivery."""
        self.put_back(sequence, count)

    def positions(self) -> list[tuple[int, int, int, int]]:
        """(priority, first message never delivered, next number, first of this incarnation) of each line."""
        return [(self.base >> LINE_BITS, self.position(), self.next_sequence, self.own_from)]

    def delivery_counts(self) -> list[tuple[int, int]]:
        """Delivery counts by sequence, if there is a delivery limit."""
        return list(self.deliveries.items())

    def adopt(self, sequence: int, batch: Batch, again: bool, expiry: int, expiries: bytearray | None) -> None:
        """Append ready messages with the numbers, and counted in the totals, of another shard."""
        segment = Segment(batch, 0, batch.count, sequence)
        body_bytes, flags = batch.survey(0, batch.count)
        segment.hold(body_bytes, batch.whole(0, batch.count))
        segment.again = again
        segment.expiry = expiry
        segment.expiries = expiries
        if expiries is not None or expiry < NEVER:
            self.expiring = True
        if self.durable and flags & C_PERSISTENT:
            segment.stored = True
            self.journal.add(self.id, segment)
        self.put(segment)
        self.requeued.add(sequence, segment.count)
        self.ready += segment.count
        self.ready_bytes += body_bytes
        self.ready_whole += segment.whole
        self.unseen_to = sequence + segment.count

    def discard(self, sequence: int, count: int) -> None:
        """Remove adopted messages that have been settled at the old home meanwhile."""
        for low, part in self.claim(sequence, count):
            self.settle(low, part)

    def go_on_from(self, priority: int, position: int, next_sequence: int, own_from: int) -> None:
        """Continue from the `positions` of the line on its old home, after all messages have been adopted."""
        self.next_sequence = max(self.base, next_sequence)
        self.cursor = self.fresh = self.next_sequence
        self.own_from = own_from
        self.unseen_from = min(position, self.unseen_to) if self.requeued.total else self.unseen_to
        self.leased = position
        if self.segments and (self.durable or self.paged > 0):
            self.journal.lease(self.id, priority, position)

    def is_recovered(self, sequence: int) -> bool:
        """Whether a message comes from an earlier incarnation."""
        return sequence < self.own_from

    def claim(self, sequence: int, count: int) -> list[tuple[int, int]]:
        """Make ready messages unacked, since their consumers have them already; return (start, count) of those
        found.
        """
        claimed = self.requeued.remove(sequence, count)
        stored = self.durable and len(claimed) > 0
        for low, part in claimed:
            segment: Segment = self.segments[self.find(low)]
            stored |= segment.stored
            body_bytes, whole = self.range_sizes(low, part)
            self.ready -= part
            self.ready_bytes -= body_bytes
            self.ready_whole -= whole
            self.unacked += part
            self.unacked_bytes += body_bytes
            self.unacked_whole += whole
            self.unseen_from = max(self.unseen_from, low + part)
        if self.estimated:
            self.correct()
        if stored:
            self.extend_lease()  # the incarnation that delivered them may have died before it recorded that
        return claimed

    def again(self, unacked: RangeSet) -> list[Range]:
        """These unacked messages, to be redelivered to the consumer that has them. Raises StoreError if they cannot be
        read.
        """
        pieces = self.pieces_of(unacked)
        for segment, _, _ in pieces:
            if segment.batch is None:
                self.fetch(segment)
        found: list[Range] = []
        for segment, sequence, count in pieces:
            offset = sequence - segment.sequence
            body_bytes = self.segment_bytes(segment, offset, count)
            found.append(Range(segment.batch, segment.first + offset, count, sequence, True, body_bytes))
            self.totals.delivered += count
            self.totals.redelivered += count
        return found

    def pieces_of(self, unacked: RangeSet) -> list[tuple[Segment, int, int]]:
        """These unacked messages by segments: (segment, sequence, count)."""
        pieces: list[tuple[Segment, int, int]] = []
        for sequence, end in unacked.ranges():
            while sequence < end:
                segment: Segment = self.segments[self.find(sequence)]
                count = min(end, segment.sequence + segment.count) - sequence
                pieces.append((segment, sequence, count))
                sequence += count
        return pieces

    def close(self) -> None:
        """Empty a deleted queue without unacked messages, here and in the store."""
        if self.journal is not None:
            self.unstore_all()
        self.clear()
        self.dead = []
        self.requeued.clear()
        self.deliveries.clear()
        self.cursor = self.next_sequence
        self.ready = self.ready_bytes = self.ready_whole = 0
        self.unacked = self.unacked_bytes = self.unacked_whole = 0

    def unstore_all(self) -> int:
        """Have the store forget all messages, delivery counts and the lease."""
        for segment in self.segments:
            if segment is not None and segment.stored:
                segment.stored = False
                self.journal.remove(self.id, segment)
        for sequence in self.deliveries:
            self.journal.count(self.id, sequence, 0)
        if self.leased > self.base:
            self.journal.lease(self.id, self.base >> LINE_BITS, None)
        return 0

    # Expiry

    def head_run(self, expired: bool) -> int:
        """The number of messages at the head, all of one segment, that have expired, or have not; 0 if the first is not
        so.
        """
        if self.requeued.total:
            sequence, high = self.requeued.first_range()
        else:
            sequence = self.cursor
            high = self.next_sequence
        segment: Segment = self.segments[self.find(sequence)]
        offset = sequence - segment.sequence
        count = min(high - sequence, segment.count - offset)
        if sequence >= self.fresh:
            return 0 if expired else count
        if segment.expiries is None:
            return count if (segment.expiry <= self.now) == expired else 0
        p = address_of_bytearray(segment.expiries)
        for i in range(count):
            if (get64(p, 8 * (offset + i)) <= self.now) != expired:
                return i
        return count

    def expire(self, now: int) -> int:
        """Drop expired messages at the head; return how many."""
        self.now = now
        dropped = 0
        while self.ready > 0:
            count = self.head_run(True)
            if count == 0:
                break
            dropped += self.drop(count, UNLIMITED, C_EXPIRED)
        if self.ttl < 0 and self.ready + self.unacked == 0:
            self.expiring = False
        return dropped

    def offered(self) -> None:
        """Consumers have been offered all messages: those that remain may expire."""
        self.fresh = self.next_sequence

    def next_expiry(self) -> int:
        """When the message at the head expires; NEVER if it does not or there is none."""
        if not self.expiring or self.ready == 0:
            return 1 << 62
        sequence = self.first_ready()
        segment: Segment = self.segments[self.find(sequence)]
        if segment.expiries is None:
            return segment.expiry
        return get64(address_of_bytearray(segment.expiries), 8 * (sequence - segment.sequence))

    # Departures

    def forget(self, sequence: int, count: int, fate: int) -> tuple[int, int]:
        """Subtract finally settled messages from their segments; return bytes of their bodies and whole bytes."""
        total = total_whole = 0
        while count > 0:
            index = self.find(sequence)
            segment = self.segments[index]
            offset = sequence - segment.sequence
            part = min(count, segment.count - offset)
            total += self.segment_bytes(segment, offset, part)
            nbytes = self.segment_whole(segment, offset, part)
            total_whole += nbytes
            self.lessen(segment, part, nbytes)
            if segment.origin is not None or segment.pieces is not None:
                self.record_leaving(segment, offset, part)
            if segment.stored and fate != DEAD:
                self.unstore(segment, offset, part)
            if self.deliveries:
                for i in range(sequence, sequence + part):
                    if self.deliveries.pop(i, None) is not None and self.durable:
                        self.journal.count(self.id, i, 0)
            sequence += part
            count -= part
            if segment.live == 0:
                self.let_go(segment)
        return total, total_whole

    def record_leaving(self, segment: Segment, offset: int, count: int) -> int:
        """Record the departure of messages for publishers whose confirms may be withheld."""
        origin = segment.origin
        if origin is not None and not self.stopped and origin.turn <= origin.source.last_report:
            return 0
        for _, part, source_of, row in segment.came_from(offset, count):
            origin = source_of
            if origin.source.left is not None and (self.stopped or origin.turn > origin.source.last_report):
                origin.source.left.append((self.owner, origin, row, part))
        return 0

    def settle(self, sequence: int, count: int) -> None:
        """Settle unacked messages: they are removed."""
        self.end(sequence, count, DONE)

    def end(self, sequence: int, count: int, fate: int) -> int:
        """Remove unacked messages, which are DONE or DEAD."""
        body_bytes, whole = self.forget(sequence, count, fate)
        self.unacked -= count
        self.unacked_bytes -= body_bytes
        self.unacked_whole -= whole
        self.totals.acked += count
        if self.estimated:
            self.correct()
        return 0

    def reject(self, sequence: int, count: int) -> None:
        """Reject unacked messages: they are dead or removed; if they cannot be read to be buried, they become ready."""
        if not self.keeps_dead:
            self.end(sequence, count, DONE)
        elif self.bury(sequence, count, C_REJECTED):
            self.end(sequence, count, DEAD)
        else:
            self.put_back(sequence, count)

    def bury(self, sequence: int, count: int, reason: int) -> bool:
        """Add unacked messages to the dead; False if they cannot be read."""
        end = sequence + count
        at = sequence
        while at < end:
            segment = self.segments[self.find(at)]
            if segment.batch is None and not self.fetched(segment):
                return False
            at = segment.sequence + segment.count
        while sequence < end:
            segment = self.segments[self.find(sequence)]
            offset = sequence - segment.sequence
            part = min(end - sequence, segment.count - offset)
            body_bytes = segment.batch.body_bytes(segment.first + offset, part)
            item = Range(segment.batch, segment.first + offset, part, sequence, True, body_bytes)
            if segment.stored:
                item.segment = segment
                if reason == C_REJECTED:
                    segment.reject(offset, part)
                    self.journal.mark(self.id, segment)
            self.dead.append((reason, item))
            sequence += part
        return True

    def requeue(self, sequence: int, count: int) -> None:
        """Make unacked messages ready in their original place."""
        if self.delivery_limit >= 0:
            for i in range(sequence, sequence + count):
                self.requeue_counted(i)
        else:
            self.put_back(sequence, count)

    def requeue_counted(self, sequence: int) -> int:
        """Requeue a message unless it has reached the delivery limit."""
        deliveries = self.deliveries.get(sequence, 0) + 1
        if deliveries <= self.delivery_limit:
            self.deliveries[sequence] = deliveries
            if self.durable and self.segments[self.find(sequence)].stored:
                self.journal.count(self.id, sequence, deliveries)
            self.put_back(sequence, 1)
        elif self.keeps_dead and not self.bury(sequence, 1, C_DELIVERY_LIMIT):
            self.put_back(sequence, 1)
        else:
            self.end(sequence, 1, DEAD if self.keeps_dead else DONE)
            self.totals.acked -= 1
            self.totals.dropped += 1
        return 0

    def drop(self, count: int, limit: int, reason: int) -> int:
        """Drop up to `count` ready messages of at most `limit` bytes of bodies (but always one); return how many."""
        taken: list[Range] = []
        dropped, nbytes = self.pick(taken, count, limit, DEAD if self.keeps_dead and reason != C_PURGED else GONE)
        self.totals.delivered -= dropped
        self.totals.delivered_bytes -= nbytes
        self.totals.acked -= dropped
        self.totals.dropped += dropped
        for item in taken:
            self.dead.append((reason, item))
        return dropped

    def drop_damaged(self) -> int:
        """Drop ready messages at the head that are damaged in the store; return how many."""
        dropped = 0
        while self.ready > 0:
            low, high = self.cursor, self.next_sequence
            if self.requeued.total:
                low, high = self.requeued.first_range()
            segment: Segment = self.segments[self.find(low)]
            if not segment.damaged:
                break
            dropped += self.drop(min(high, segment.sequence + segment.count) - low, UNLIMITED, C_PURGED)
        return dropped

    def drop_damaged_unacked(self, unacked: RangeSet) -> int:
        """Drop those of these unacked messages that are damaged in the store, here and in the set; return how many."""
        dropped = 0
        for segment, sequence, count in self.pieces_of(unacked):
            if segment.damaged:
                unacked.remove(sequence, count)
                self.end(sequence, count, DONE)
                dropped += count
        self.totals.acked -= dropped
        self.totals.dropped += dropped
        return dropped

    def drop_head(self, max_count: int, max_bytes: int) -> int:
        """Drop ready messages from the head until at most `max_count` and `max_bytes` of bodies remain; return how
        many.
        """
        dropped = 0
        while self.ready > max_count or (self.ready_bytes > max_bytes and self.ready > 0):
            excess = max(self.ready - max_count, 1)
            nbytes = max(self.ready_bytes - max_bytes, 0) if excess == 1 else UNLIMITED
            dropped += self.drop(excess, nbytes, C_MAXLEN)
        return dropped

    def purge(self) -> int:
        """Drop all ready messages; return how many."""
        return self.drop(self.ready, UNLIMITED, C_PURGED)
