# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""A queue with priorities (x-max-priority): a line of messages for each priority in use, the highest served first.

Each line is a queue of its own, whose numbers have the priority in their high bits, so a sequence number identifies its
line. All counts are sums over the lines. Limits drop from the head: the messages that would be served first.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import Batch, BatchBuilder
    from shard.contents.properties_cy import priority_of
    from shard.contents.queue_cy import Queue
    from shard.contents.segment_cy import Origin, Range, Segment

    C_HAS_PRIORITY = 8
    LINE_BITS = 48


class PriorityQueue(Queue):
    """`Queue` for messages of priorities 0 to `max_priority`; a higher priority counts as the maximum, none as 0."""

    def __init__(
        self, id: int, owner: Any, max_priority: int, base: int = 0, journal: Any = None, durable: bool = False
    ) -> None:
        """`base` is the first sequence number of the line of priority 0; it must be below 2**48."""
        Queue.__init__(self, id, owner, base, journal, durable)
        self.max_priority = max_priority
        self.lines: dict[int, Queue] = {}
        self.order: list[Any] = []

    def line(self, priority: int) -> Queue:
        """The line of a priority, made on first use."""
        line = self.lines.get(priority)
        if line is None:
            base = (priority << LINE_BITS) + self.base
            line = Queue(self.id, self.owner, base, self.journal, self.durable)
            line.dead = self.dead
            line.stop(self.stopped)
            line.configure(self.ttl, self.keeps_dead, self.delivery_limit)
            self.lines[priority] = line
            self.order = [self.lines[key] for key in sorted(self.lines, reverse=True)]
        return line

    def line_of(self, sequence: int) -> Queue:
        return self.lines[sequence >> LINE_BITS]

    def count(self, line: Queue, sign: int) -> int:
        """Add the counts of a line to the sums (`sign` 1), or subtract them (-1)."""
        self.ready += sign * line.ready
        self.ready_bytes += sign * line.ready_bytes
        self.ready_whole += sign * line.ready_whole
        self.unacked += sign * line.unacked
        self.unacked_bytes += sign * line.unacked_bytes
        self.unacked_whole += sign * line.unacked_whole
        self.totals.add(line.totals, sign)
        self.paged += sign * line.paged
        self.overhead += sign * line.overhead
        return 0

    def configure(self, ttl: int, keeps_dead: bool, delivery_limit: int) -> None:
        self.ttl = ttl
        self.keeps_dead = keeps_dead
        self.delivery_limit = delivery_limit
        for line in self.order:
            line.configure(ttl, keeps_dead, delivery_limit)

    def stop(self, stopped: bool) -> None:
        Queue.stop(self, stopped)
        for line in self.order:
            line.stop(stopped)

    def take_dead(self) -> list[tuple[int, Range]]:
        dead = self.dead
        self.dead = []
        for line in self.order:
            line.dead = self.dead
        return dead

    def enqueue(self, batch: Batch, first: int, count: int, now: int = 0, origin: Origin | None = None) -> int:
        """Append messages, each to the line of its priority; return the sequence number of the first."""
        high = self.highest(batch, first)
        for i in range(first + 1, first + count):
            if self.highest(batch, i) != high:
                return self.enqueue_mixed(batch, first, count, now, origin)
        return self.append(self.line(high), batch, first, count, now, origin)

    def enqueue_mixed(self, batch: Batch, first: int, count: int, now: int, origin: Origin | None) -> int:
        """Append messages of several priorities, copied into a batch for each."""
        builders: dict[int, BatchBuilder] = {}
        pieces: dict[int, list[tuple[int, int, Origin, int]]] = {}
        start = first
        end = first + count
        while start < end:
            priority = self.highest(batch, start)
            stop = start + 1
            while stop < end and self.highest(batch, stop) == priority:
                stop += 1
            builder = builders.get(priority)
            if builder is None:
                builder = builders[priority] = BatchBuilder()
                pieces[priority] = []
            if origin is not None:
                pieces[priority].append((builder.count, stop - start, origin, start))
            builder.extend(batch, start, stop - start)
            start = stop
        sequence = self.line(self.highest(batch, first)).next_sequence
        for priority, builder in builders.items():
            copied = builder.count
            line = self.line(priority)
            self.append(line, builder.finish(), 0, copied, now, None)
            line.record_pieces(pieces[priority] or None)
        return sequence

    def newest(self, batch: Batch, row: int) -> int:
        return self.line(self.highest(batch, row)).next_sequence - 1

    def is_ready(self, sequence: int) -> bool:
        return self.line_of(sequence).is_ready(sequence)

    def highest(self, batch: Batch, row: int) -> int:
        """The priority of a message, at most `max_priority`."""
        if not batch.all_flags(row, 1) & C_HAS_PRIORITY:
            return 0
        return min(priority_of(batch, row), self.max_priority)

    def append(self, line: Queue, batch: Batch, first: int, count: int, now: int, origin: Origin | None) -> int:
        """Append messages to a line."""
        self.count(line, -1)
        sequence = line.enqueue(batch, first, count, now, origin)
        self.count(line, 1)
        if line.expiring:
            self.expiring = True
        return sequence

    def pop_onto(self, taken: list[Range], count: int, limit: int, settled: bool) -> int:
        total_spent = 0
        for line in self.order:
            if line.ready == 0:
                continue
            before = len(taken)
            line.reading = self.reading
            self.count(line, -1)
            try:
                nbytes = line.pop_onto(taken, count, limit, settled)
            finally:
                self.count(line, 1)
            for i in range(before, len(taken)):
                item: Range = taken[i]
                count -= item.count
            limit -= nbytes
            total_spent += nbytes
            if line.ready:
                break
        return total_spent

    def expire(self, now: int) -> int:
        dropped = 0
        self.now = now
        expiring = self.ttl >= 0
        for line in self.order:
            if line.expiring:
                self.count(line, -1)
                try:
                    dropped += line.expire(now)
                finally:
                    self.count(line, 1)
                expiring = expiring or line.expiring
        self.expiring = expiring
        return dropped

    def offered(self) -> None:
        for line in self.order:
            line.offered()

    def next_expiry(self) -> int:
        soonest = 1 << 62
        for line in self.order:
            soonest = min(soonest, line.next_expiry())
        return soonest

    def settle(self, sequence: int, count: int) -> None:
        line = self.line_of(sequence)
        self.count(line, -1)
        line.settle(sequence, count)
        self.count(line, 1)

    def reject(self, sequence: int, count: int) -> None:
        line = self.line_of(sequence)
        self.count(line, -1)
        line.reject(sequence, count)
        self.count(line, 1)

    def size_of(self, sequence: int, count: int) -> int:
        line = self.line_of(sequence)
        self.count(line, -1)
        size: int = line.size_of(sequence, count)  # may read contents into memory
        self.count(line, 1)
        return size

    def requeue(self, sequence: int, count: int) -> None:
        line = self.line_of(sequence)
        self.count(line, -1)
        line.requeue(sequence, count)
        self.count(line, 1)

    def recover(self, segments: list[Segment], delivered_to: dict[int, int]) -> None:
        """Recover segments of an earlier incarnation, in order; `delivered_to` is that of each line, by priority."""
        by_line: dict[int, list[Segment]] = {priority: [] for priority in delivered_to}
        for segment in segments:
            by_line.setdefault(segment.sequence >> LINE_BITS, []).append(segment)
        for priority, part in by_line.items():
            line = self.line(priority)
            self.count(line, -1)
            line.recover(part, {0: delivered_to.get(priority, 0)})
            self.count(line, 1)
            if line.expiring:
                self.expiring = True

    def give_back(self, sequence: int, count: int) -> None:
        line = self.line_of(sequence)
        self.count(line, -1)
        line.give_back(sequence, count)
        self.count(line, 1)

    def survivors(self) -> list[tuple[Segment, int, int]]:
        """All ready messages, line by line."""
        found: list[tuple[Segment, int, int]] = []
        for line in self.order:
            found += line.survivors()
        return found

    def ready_ranges(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for line in self.order:
            found += line.ready_ranges()
        return found

    def live_from(self, sequence: int, end: int, nbytes: int) -> list[tuple[Segment, int, int]]:
        return self.line_of(sequence).live_from(sequence, end, nbytes)

    def positions(self) -> list[tuple[int, int, int, int]]:
        found: list[tuple[int, int, int, int]] = []
        for line in self.order:
            found += line.positions()
        return found

    def delivery_counts(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for line in self.order:
            found += line.delivery_counts()
        return found

    def adopt(self, sequence: int, batch: Batch, again: bool, expiry: int, expiries: bytearray | None) -> None:
        line = self.line(sequence >> LINE_BITS)
        self.count(line, -1)
        line.adopt(sequence, batch, again, expiry, expiries)
        self.count(line, 1)
        if line.expiring:
            self.expiring = True

    def go_on_from(self, priority: int, position: int, next_sequence: int, own_from: int) -> None:
        line = self.line(priority)
        line.go_on_from(priority, position, next_sequence, own_from)

    def is_recovered(self, sequence: int) -> bool:
        return self.line_of(sequence).is_recovered(sequence)

    def claim(self, sequence: int, count: int) -> list[tuple[int, int]]:
        line = self.lines.get(sequence >> LINE_BITS)
        if line is None:
            return []
        self.count(line, -1)
        claimed = line.claim(sequence, count)
        self.count(line, 1)
        return claimed

    def batch_of(self, sequence: int) -> Batch:
        line = self.line_of(sequence)
        self.count(line, -1)
        try:
            batch = line.batch_of(sequence)
        finally:
            self.count(line, 1)
        return batch

    def page_out(self, nbytes: int, keep: int) -> int:
        """Page out the lowest priorities first; each line keeps `keep` bytes."""
        gone = 0
        for line in reversed(self.order):
            if gone < nbytes:
                self.count(line, -1)
                gone += line.page_out(nbytes - gone, keep)
                self.count(line, 1)
        return gone

    def page_out_front(self, nbytes: int, keep: int, spills: bool) -> int:
        """Page out from the front, the lowest priorities first; each line keeps `keep` bytes."""
        gone = 0
        for line in reversed(self.order):
            if gone < nbytes:
                self.count(line, -1)
                gone += line.page_out_front(nbytes - gone, keep, spills)
                self.count(line, 1)
        return gone

    def page_out_beyond(self, count: int, nbytes: int, least: int) -> int:
        """Page out beyond a window of the messages that are served first; each line keeps `least` bytes."""
        gone = 0
        for line in self.order:
            self.count(line, -1)
            gone += line.page_out_beyond(count, nbytes, least)
            self.count(line, 1)
            if count < 1 << 62:
                count = max(count - line.ready, 0)
            if nbytes < 1 << 62:
                nbytes = max(nbytes - line.ready_whole, 0)
        return gone

    def ahead(self, sequence: int, nbytes: int) -> list[Segment]:
        """Segments to read ahead from the heads of the lines, in the order of service; arriving messages are in
        memory.
        """
        wanted: list[Segment] = []
        for line in self.order:
            if line.ready and nbytes > 0:
                wanted += line.ahead(line.first_ready(), nbytes)
                nbytes -= line.ready_whole
        return wanted

    def install(self, segment: Segment, batch: Batch) -> None:
        line = self.line_of(segment.sequence)
        self.count(line, -1)
        line.install(segment, batch)
        self.count(line, 1)

    def first_ready(self) -> int:
        for line in self.order:
            if line.ready:
                first: int = line.first_ready()
                return first
        return self.cursor

    def record_position(self) -> None:
        for line in self.order:
            line.record_position()

    def close(self) -> None:
        for line in self.order:
            line.close()
        Queue.close(self)

    def came_back(self, sequence: int, deliveries: int) -> None:
        self.line_of(sequence).came_back(sequence, deliveries)

    def delivery_count(self, sequence: int) -> int:
        return self.line_of(sequence).delivery_count(sequence)

    def drop_damaged(self) -> int:
        dropped = 0
        for line in self.order:
            self.count(line, -1)
            dropped += line.drop_damaged()
            self.count(line, 1)
        return dropped

    def drop(self, count: int, limit: int, reason: int) -> int:
        dropped = 0
        for line in self.order:
            while count > 0 and line.ready and (limit > 0 or dropped == 0):
                before = line.ready_bytes
                self.count(line, -1)
                try:
                    part = line.drop(count, limit, reason)
                finally:
                    self.count(line, 1)
                limit -= before - line.ready_bytes
                count -= part
                dropped += part
        return dropped
