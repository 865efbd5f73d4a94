# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Delivery tags of a channel and the messages they stand for, as ranges (AMQP 0-9-1, 3.1.8 and 1.8.3.13).

Tags count up from 1, so ranges are appended in the order of their tags and found by bisection. A row of 40 bytes,
little-endian, stands for a run of deliveries to one consumer:

    0   8  first tag
    8   8  the consumer's id on the bus (`penstock.batch.consumer_ids`); 0 if the messages have been left to a lease:
           their tags are still known, but settle nothing
    16  8  sequence number of the first message in its queue
    24  4  number of messages; 0 once they are settled, until the row is trimmed
    28  4  time of delivery in seconds, times 4; in the journal of a transaction plus how they were settled
    32  8  what they count whole (`Batch.whole`): of a part that is settled alone, as much as of any part of its size
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.consumer_ids import GETS_BIT, at_shard, shard_of
    from penstock.batch.pointers import Pointer, address_of_bytearray, copy, get16, get32, get64, put32, put64, resize
    from penstock.batch.settlement_rows import OF_COUNT, OF_KIND, OF_SEQUENCE, SETTLE_ACK, SETTLE_REQUEUE, SETTLED_ROW

    ROW = 40
    SETTLEMENT_SIZE = 16
    NOBODY = 0

ROW_BYTES = 40


class Settlements:
    """Settlements for one shard in the making: rows of `penstock.batch.settlement_rows`."""

    def __init__(self) -> None:
        self.rows = bytearray()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, consumer: int, sequence: int, count: int, kind: int) -> int:
        """Append a range, or extend the last one."""
        p = address_of_bytearray(self.rows)
        if self.count:
            at = (self.count - 1) * SETTLED_ROW
            if (
                get64(p, at) == consumer
                and get32(p, at + OF_KIND) == kind
                and get64(p, at + OF_SEQUENCE) + get32(p, at + OF_COUNT) == sequence
            ):
                put32(p, at + OF_COUNT, get32(p, at + OF_COUNT) + count)
                return 0
        at = self.count * SETTLED_ROW
        if at + SETTLED_ROW > len(self.rows):
            resize(self.rows, max(2 * len(self.rows), 8 * SETTLED_ROW))
            p = address_of_bytearray(self.rows)
        put64(p, at, consumer)
        put64(p, at + OF_SEQUENCE, sequence)
        put32(p, at + OF_COUNT, count)
        put32(p, at + OF_KIND, kind)
        self.count += 1
        return 0

    def extend(self, other: Settlements, requeues: bool) -> int:
        """Append the rows of `other`, with or without those to be requeued."""
        p = address_of_bytearray(other.rows)
        for row in range(other.count):
            at = row * SETTLED_ROW
            kind = get32(p, at + OF_KIND)
            if requeues or kind != SETTLE_REQUEUE:
                self.add(get64(p, at), get64(p, at + OF_SEQUENCE), get32(p, at + OF_COUNT), kind)
        return 0

    def extend_returned(self, other: Settlements) -> int:
        """Append the rows of `other` that are to be requeued."""
        p = address_of_bytearray(other.rows)
        for row in range(other.count):
            at = row * SETTLED_ROW
            if get32(p, at + OF_KIND) == SETTLE_REQUEUE:
                self.add(get64(p, at), get64(p, at + OF_SEQUENCE), get32(p, at + OF_COUNT), SETTLE_REQUEUE)
        return 0

    def extend_held(self, other: Settlements) -> int:
        """Append the rows of `other` as unacked: their settlement may still be undone."""
        p = address_of_bytearray(other.rows)
        for row in range(other.count):
            at = row * SETTLED_ROW
            self.add(get64(p, at), get64(p, at + OF_SEQUENCE), get32(p, at + OF_COUNT), 0)
        return 0

    def consumers(self) -> set[int]:
        """Return the ids of all consumers in its rows."""
        ids = set()
        p = address_of_bytearray(self.rows)
        for row in range(self.count):
            ids.add(get64(p, row * SETTLED_ROW))
        return ids

    def take_out(self, ids: set[int], shard: int) -> Settlements:
        """Remove and return the rows of these consumers, under ids with the index of another shard."""
        taken = Settlements()
        left = Settlements()
        p = address_of_bytearray(self.rows)
        for row in range(self.count):
            at = row * SETTLED_ROW
            consumer = get64(p, at)
            if consumer in ids:
                taken.add(
                    at_shard(consumer, shard),
                    get64(p, at + OF_SEQUENCE),
                    get32(p, at + OF_COUNT),
                    get32(p, at + OF_KIND),
                )
            else:
                left.add(consumer, get64(p, at + OF_SEQUENCE), get32(p, at + OF_COUNT), get32(p, at + OF_KIND))
        self.rows = left.rows
        self.count = left.count
        return taken

    def finish(self) -> bytearray:
        """Return the rows; nothing may be added afterwards."""
        resize(self.rows, self.count * SETTLED_ROW)
        return self.rows


class UnackedTags:
    """Unacked messages of a channel; `total` counts them, `consumed` those not delivered by gets, `whole` is what all
    of them count whole.
    """

    def __init__(self) -> None:
        self.rows = bytearray()
        self.head = 0
        self.tail = 0
        self.next_tag = 1
        self.total = 0
        self.consumed = 0
        self.acked = 0
        self.whole = 0
        self.journal: Any = None

    def __len__(self) -> int:
        return self.total

    def deliver(self, consumer: int, sequence: int, count: int, now: int = 0, whole: int = 0) -> int:
        """Assign tags to deliveries that will be settled, which count `whole`; return the first tag. `now` is in
        seconds and never goes back.
        """
        if (self.tail + 1) * ROW > len(self.rows):
            self.compact()
            if self.tail * 2 * ROW >= len(self.rows):
                resize(self.rows, max(2 * len(self.rows), 8 * ROW))
        tag = self.next_tag
        p = address_of_bytearray(self.rows)
        at = self.tail * ROW
        put64(p, at, tag)
        put64(p, at + 8, consumer)
        put64(p, at + 16, sequence)
        put32(p, at + 24, count)
        put32(p, at + 28, now << 2)
        put64(p, at + 32, whole)
        self.tail += 1
        self.next_tag += count
        self.total += count
        self.whole += whole
        if not consumer >> GETS_BIT:
            self.consumed += count
        return tag

    def skip(self, count: int) -> int:
        """Assign tags to deliveries that need no settling (no-ack); return the first tag."""
        self.next_tag += count
        return self.next_tag - count

    def find(self, tag: int) -> int:
        """Return the index of the row that holds an unsettled tag, or -1."""
        low = self.head
        high = self.tail - 1
        if high < low:
            return -1
        p = address_of_bytearray(self.rows)
        while low < high:
            middle = (low + high + 1) >> 1
            first = get64(p, middle * ROW)
            if first <= tag:
                low = middle
            else:
                high = middle - 1
        first = get64(p, low * ROW)
        if first <= tag and tag < first + get32(p, low * ROW + 24):
            return low
        return -1

    def settle(self, settlements: bytearray, count: int, builders: list[Settlements]) -> int:
        """Apply a run of settlements (rows of `scan_cy.SettleRun`), writing to the builder of each shard.

        Return the first unknown tag, having applied those before it, or -1.
        """
        p = address_of_bytearray(settlements)
        for i in range(count):
            tag = get64(p, i * SETTLEMENT_SIZE)
            kind = get32(p, i * SETTLEMENT_SIZE + 8)
            multiple = get16(p, i * SETTLEMENT_SIZE + 12)
            before = self.total
            if tag == 0 and multiple:
                self.settle_all(kind, builders)
            elif multiple:
                if not self.settle_up_to(tag, kind, builders):
                    return tag
            elif not self.settle_one(tag, kind, builders):
                return tag
            if kind == SETTLE_ACK:
                self.acked += before - self.total
        self.trim()
        return -1

    def settle_one(self, tag: int, kind: int, builders: list[Settlements]) -> bool:
        """Settle one tag; False if it is unknown."""
        index = self.find(tag)
        if index < 0:
            return False
        p = address_of_bytearray(self.rows)
        at = index * ROW
        first = get64(p, at)
        size = get32(p, at + 24)
        offset = tag - first
        self.emit(p, at, offset, 1, kind, builders)
        if offset == 0:
            put64(p, at, first + 1)
            put64(p, at + 16, get64(p, at + 16) + 1)
            put32(p, at + 24, size - 1)
        else:
            put32(p, at + 24, offset)
            if offset + 1 < size:
                self.insert_after(index)
                p = address_of_bytearray(self.rows)
                put64(p, at + ROW, tag + 1)
                put64(p, at + ROW + 8, get64(p, at + 8))
                put64(p, at + ROW + 16, get64(p, at + 16) + offset + 1)
                put32(p, at + ROW + 24, size - offset - 1)
                put32(p, at + ROW + 28, get32(p, at + 28))
                whole = get64(p, at + 32)
                before = whole * offset // (size - 1)
                put64(p, at + 32, before)
                put64(p, at + ROW + 32, whole - before)
        self.total -= 1
        self.trim()
        return True

    def settle_up_to(self, tag: int, kind: int, builders: list[Settlements]) -> bool:
        """Settle all tags up to and including one; False if that is unknown."""
        index = self.find(tag)
        if index < 0:
            return False
        p = address_of_bytearray(self.rows)
        while self.head < index:
            at = self.head * ROW
            part = get32(p, at + 24)
            if part:
                self.emit(p, at, 0, part, kind, builders)
                self.total -= part
            self.head += 1
        at = index * ROW
        first = get64(p, at)
        part = tag - first + 1
        self.emit(p, at, 0, part, kind, builders)
        put64(p, at, tag + 1)
        put64(p, at + 16, get64(p, at + 16) + part)
        put32(p, at + 24, get32(p, at + 24) - part)
        self.total -= part
        self.trim()
        return True

    def settle_all(self, kind: int, builders: list[Settlements]) -> None:
        """Settle all unacked messages."""
        while self.head < self.tail:
            p = address_of_bytearray(self.rows)
            if get32(p, self.head * ROW + 24):
                self.emit(p, self.head * ROW, 0, get32(p, self.head * ROW + 24), kind, builders)
            self.head += 1
        self.total = 0
        self.trim()

    def leave(self, ids: set[int]) -> None:
        """Leave the unacked messages of these consumers to others: they are not to be settled from here."""
        p = address_of_bytearray(self.rows)
        for row in range(self.head, self.tail):
            at = row * ROW
            if get64(p, at + 8) in ids:
                put64(p, at + 8, NOBODY)

    def older_than(self, then: int) -> list[tuple[int, int]]:
        """Return the consumer's id and the time of each row that was delivered before `then` and is to be settled."""
        older = []
        p = address_of_bytearray(self.rows)
        for row in range(self.head, self.tail):
            if get32(p, row * ROW + 28) >> 2 >= then:
                break
            if get32(p, row * ROW + 24) and get64(p, row * ROW + 8) != NOBODY:
                older.append((get64(p, row * ROW + 8), get32(p, row * ROW + 28) >> 2))
        return older

    def hold(self, shard: int, held: Settlements) -> int:
        """Append to `held` all unacked messages that a shard has delivered."""
        p = address_of_bytearray(self.rows)
        for row in range(self.head, self.tail):
            at = row * ROW
            count = get32(p, at + 24)
            if count and get64(p, at + 8) != NOBODY and shard_of(get64(p, at + 8)) == shard:
                held.add(get64(p, at + 8), get64(p, at + 16), count, 0)
        return 0

    def hold_of(self, ids: set[int], held: Settlements) -> None:
        """Append to `held` all unacked messages of these consumers."""
        p = address_of_bytearray(self.rows)
        for row in range(self.head, self.tail):
            at = row * ROW
            count = get32(p, at + 24)
            if count and get64(p, at + 8) in ids:
                held.add(get64(p, at + 8), get64(p, at + 16), count, 0)

    def emit(self, p: Pointer, at: int, offset: int, count: int, kind: int, builders: list[Settlements]) -> int:
        """Write a settlement of a part of a row to its shard's builder, and to the journal if there is one."""
        consumer = get64(p, at + 8)
        sequence = get64(p, at + 16) + offset
        if consumer != NOBODY:
            builder = builders[shard_of(consumer)]
            builder.add(consumer, sequence, count, kind)
        if not consumer >> GETS_BIT:
            self.consumed -= count
        whole = get64(p, at + 32)
        part = whole if count == get32(p, at + 24) else whole * count // get32(p, at + 24)
        put64(p, at + 32, whole - part)
        self.whole -= part
        if self.journal is not None:
            self.note(get64(p, at) + offset, consumer, sequence, count, get32(p, at + 28) >> 2 << 2 | kind, part)
        return 0

    def note(self, tag: int, consumer: int, sequence: int, count: int, when_and_kind: int, whole: int) -> int:
        """Record a settlement in the journal: it may have to be undone."""
        at = len(self.journal)
        resize(self.journal, at + ROW)
        p = address_of_bytearray(self.journal)
        put64(p, at, tag)
        put64(p, at + 8, consumer)
        put64(p, at + 16, sequence)
        put32(p, at + 24, count)
        put32(p, at + 28, when_and_kind)
        put64(p, at + 32, whole)
        return 0

    def settle_noted(self, settlements: bytearray, count: int, builders: list[Settlements], journal: bytearray) -> int:
        """Settle as `settle` does, recording every settled range in a journal of rows."""
        self.journal = journal
        try:
            return self.settle(settlements, count, builders)
        finally:
            self.journal = None

    def restore(self, journal: bytearray) -> None:
        """Undo the settlements in a journal: their messages are unacked again."""
        self.compact()
        p = address_of_bytearray(journal)
        for row in range(len(journal) // ROW):
            count = get32(p, row * ROW + 24)
            self.total += count
            if get32(p, row * ROW + 28) & 3 == SETTLE_ACK:
                self.acked -= count
            self.whole += get64(p, row * ROW + 32)
            if not get64(p, row * ROW + 8) >> GETS_BIT:
                self.consumed += count
        data = bytes(self.rows[: self.tail * ROW] + journal)
        rows = [data[at : at + ROW] for at in range(0, len(data), ROW)]
        rows.sort(key=first_tag)
        self.rows = bytearray(b"".join(rows))
        self.tail = len(rows)

    def readdress(self, ids: set[int], shard: int) -> None:
        """Change the index of the shard in the ids of these consumers."""
        readdress_rows(self.rows, self.head, self.tail, ids, shard)

    def insert_after(self, index: int) -> int:
        """Open a row behind the given one."""
        if (self.tail + 1) * ROW > len(self.rows):
            resize(self.rows, 2 * len(self.rows))
        p = address_of_bytearray(self.rows)
        for row in range(self.tail, index + 1, -1):
            copy(p, row * ROW, p, (row - 1) * ROW, ROW)
        self.tail += 1
        return 0

    def compact(self) -> int:
        """Close the gaps of settled rows, also behind a row that stays unsettled for long."""
        p = address_of_bytearray(self.rows)
        kept = 0
        for row in range(self.head, self.tail):
            if get32(p, row * ROW + 24):
                if row > kept:
                    copy(p, kept * ROW, p, row * ROW, ROW)
                kept += 1
        self.head = 0
        self.tail = kept
        return 0

    def trim(self) -> int:
        """Step over settled rows at the head."""
        p = address_of_bytearray(self.rows)
        while self.head < self.tail and get32(p, self.head * ROW + 24) == 0:
            self.head += 1
        if self.head == self.tail:
            self.head = 0
            self.tail = 0
        return 0


def readdress_rows(rows: bytearray, head: int, tail: int, ids: set[int], shard: int) -> None:
    """Change the index of the shard in these consumers' ids, in rows of a channel or of a transaction's journal."""
    p = address_of_bytearray(rows)
    for row in range(head, tail):
        consumer = get64(p, row * ROW + 8)
        if consumer in ids:
            put64(p, row * ROW + 8, at_shard(consumer, shard))


def first_tag(row: bytes) -> int:
    """Return the first tag of a row."""
    return int.from_bytes(row[:8], "little")
