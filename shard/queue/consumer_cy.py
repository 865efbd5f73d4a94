# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The consumers of a queue: their unacked messages, the messages they may still be sent, and settlement."""

from __future__ import annotations

from typing import Any

import cython

from shard.contents.queue_cy import UNLIMITED

if not cython.compiled:
    from penstock.batch.pointers import address_readonly, get32, get64
    from penstock.batch.ranges_cy import RangeSet
    from penstock.batch.settlement_rows import (
        OF_COUNT,
        OF_KIND,
        OF_SEQUENCE,
        SETTLE_REJECT,
        SETTLE_REQUEUE,
        SETTLED_ROW,
    )
    from shard.contents.queue_cy import Queue
    from shard.contents.segment_cy import Range
    from shard.queue.outlet_cy import Outlet


class Hand:
    """The unacked messages of one user on this shard, over all its consumers, and the limits of their count and whole
    bytes; bytes are counted only where they are limited.

    A limit that is not set is UNLIMITED. `sleepers` are consumers waiting for fewer unacked messages, in the order in
    which they fell asleep; `asleep` is the shared set of hands that have sleepers. `reported` is set once the log has
    said that consumers wait.
    """

    def __init__(self, user: str, asleep: dict[Hand, None]) -> None:
        self.user = user
        self.count = 0
        self.nbytes = 0
        self.count_limit = UNLIMITED
        self.bytes_limit = UNLIMITED
        self.sleepers: dict[Consumer, None] = {}
        self.asleep = asleep
        self.reported = False

    def is_full(self) -> bool:
        """Whether the user has reached one of its limits."""
        return self.count >= self.count_limit or self.nbytes >= self.bytes_limit

    def sleep(self, consumer: Consumer) -> None:
        """Put a consumer to sleep until the user has fewer unacked messages."""
        self.sleepers[consumer] = None
        self.asleep[self] = None


class Group:
    """The consumers and gets of a channel, and the prefetch limit they share (basic.qos with global); 0 is no limit.

    Below 0 the acceptor keeps the limit, since other shards take part: `granted` is how many messages may be sent,
    granted for one turn at a time. A group is `hungry` from the announcement that more could be sent until the next
    grant. `sleepers` are consumers that a limit may keep from being served, in the order in which they fell asleep.

    On this shard the group may also have `bytes_limit` whole bytes unacked; at that number (`nbytes`) its consumers
    wait; 0 is no limit. Bytes are counted only for a group that `weighs`. Its unacked messages also count in the `hand`
    of its user, if the user has limits.
    """

    def __init__(self, limit: int, id: int = 0, bytes_limit: int = 0, weighs: bool = False) -> None:
        self.id = id
        self.limit = limit
        self.bytes_limit = bytes_limit
        self.weighs = weighs
        self.hand: Hand | None = None
        self.outstanding = 0
        self.nbytes = 0
        self.granted = 0
        self.hungry = False
        self.members: set[Consumer] = set()
        self.sleepers: dict[Consumer, None] = {}

    def is_limited(self) -> bool:
        """Whether a settlement by one member may allow another to be served."""
        return self.limit != 0 or self.bytes_limit > 0

    def join(self, hand: Hand) -> None:
        """Count the group in the hand of its user, which has limits."""
        if self.hand is None:
            self.hand = hand
            hand.count += self.outstanding
            hand.nbytes += self.nbytes

    def bear(self, count: int, nbytes: int) -> int:
        """Add to the unacked messages and bytes; negative numbers subtract."""
        self.outstanding += count
        self.nbytes += nbytes
        if self.hand is not None:
            self.hand.count += count
            self.hand.nbytes += nbytes
        return 0


class Consumer:
    """A consumer of a queue, or the gets of a channel.

    `window` is how many whole bytes may still be sent before the acceptor reports some of them as written to the
    socket; `prefetch` 0 is no limit; `link` is the link of its acceptor. A `cancelled` consumer is sent nothing more
    but may have unacked deliveries; the gets of a channel are cancelled from the start. `channel` is the group it
    belongs to, `group` the one whose limit binds it: gets are not limited. `priority` and `level` belong to the
    dispatch. `age` numbers consumers over all incarnations of the shard; `again` marks one that was attached in the
    last incarnation. `outlet` is its connection's, None for a consumer that is not served. `elected` is set once it has
    been announced as the active consumer of its queue. `settled_at` is when one of its messages was last settled, in
    microseconds since 1970; 0 if never; `usual` is its usual time between settlements, 0 before the second. `lease` is
    the lease that its unacked messages go to (shard/serving/leases.py), None if they go to the queue. `nbytes` is its
    part of its group's count.
    """

    def __init__(self, id: int, queue: Queue, no_ack: bool, prefetch: int, group: Group, link: Any) -> None:
        self.id = id
        self.queue = queue
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.group = group
        self.outstanding = RangeSet()
        self.nbytes = 0
        self.window = 0
        self.active = True
        self.link = link
        self.cancelled = False
        self.channel = group
        self.priority = 0
        self.level: Any = None
        self.age = 0
        self.again = False
        self.elected = False
        self.settled_at = 0
        self.usual = 0
        self.lease: Any = None
        self.outlet: Outlet | None = None

    def credit(self) -> int:
        """The number of messages that may be sent at present.

        A consumer without acks uses nothing of a shared limit, but waits while others have used it up, as with
        RabbitMQ.
        """
        if not self.active or self.window <= 0 or self.has_its_hands_full():
            return 0
        room = UNLIMITED
        if self.group.hand is not None and not self.no_ack:
            room = self.group.hand.count_limit - self.group.hand.count
        if self.prefetch and not self.no_ack:
            room = min(room, self.prefetch - self.outstanding.total)
        if self.group.limit > 0:
            room = min(room, self.group.limit - self.group.outstanding)
        elif self.group.limit < 0:
            room = min(room, self.group.granted)
        if self.no_ack and room > 0:
            return UNLIMITED
        return max(room, 0)

    def finds_message(self) -> bool:
        """Whether its queue has a ready message that could be sent at once: deliveries with acks wait for contents that
        are being read.
        """
        return self.queue.ready > 0 and (self.no_ack or not self.queue.awaits_read())

    def has_its_hands_full(self) -> bool:
        """Whether the unacked messages of its group or its user are at a limit, which binds no consumer without
        acks.
        """
        if self.no_ack:
            return False
        return 0 < self.group.bytes_limit <= self.group.nbytes or self.waits_for_user()

    def waits_for_user(self) -> bool:
        """Whether the unacked messages of its user are at a limit."""
        return self.group.hand is not None and not self.no_ack and self.group.hand.is_full()

    def sleep_if_user_is_full(self) -> None:
        """Put the consumer to sleep if its user is at a limit."""
        if self.group.hand is not None and self.waits_for_user():
            self.group.hand.sleep(self)

    def rest(self) -> None:
        """Stop waiting for limits: the consumer need not be woken."""
        self.group.sleepers.pop(self, None)
        if self.group.hand is not None:
            self.group.hand.sleepers.pop(self, None)

    def lacks_grant(self) -> bool:
        """Whether only a grant from its acceptor is missing for it to be sent more."""
        if not self.active or self.window <= 0 or self.group.limit >= 0 or self.group.granted > 0:
            return False
        if self.has_its_hands_full():
            return False
        return self.no_ack or self.prefetch == 0 or self.outstanding.total < self.prefetch

    def pop(self, count: int) -> list[Range]:
        """Pop up to `count` ready messages, within its window, that of its connection, and the limits of its channel
        and user.
        """
        window = self.window
        if self.outlet is not None:
            window = min(window, self.outlet.window)
        if self.group.bytes_limit > 0 and not self.no_ack:
            window = min(window, self.group.bytes_limit - self.group.nbytes)
        if self.group.hand is not None and not self.no_ack:
            window = min(window, self.group.hand.bytes_limit - self.group.hand.nbytes)
        taken = self.queue.pop(count, window, self.no_ack)
        for item in taken:
            self.window -= item.whole
            if self.outlet is not None:
                self.outlet.window -= item.whole
            if not self.no_ack:
                self.hold(item)
        if self.outlet is not None and self.outlet.window < 0:
            self.outlet.overdraw()
        return taken

    def hold(self, item: Range) -> None:
        """Count messages popped for this consumer as unacked."""
        self.outstanding.add(item.sequence, item.count)
        self.bear(item.count, item.whole if self.group.weighs else 0)
        if self.group.limit < 0:
            self.group.granted -= item.count

    def bear(self, count: int, nbytes: int) -> int:
        """Add to the unacked messages and bytes of the consumer and its group."""
        self.nbytes += nbytes
        return self.group.bear(count, nbytes)

    def weight_of(self, sequence: int, count: int) -> int:
        """The bytes of unacked messages; 0 where bytes are not counted."""
        return self.queue.size_of(sequence, count) if self.group.weighs else 0

    def lighten(self, count: int, nbytes: int) -> int:
        """Subtract from the unacked messages and bytes.

        Without unacked messages the bytes become 0: sizes of unreadable messages are guesses.
        """
        return self.bear(-count, -self.nbytes if self.outstanding.total == 0 else -nbytes)

    def claim(self, sequence: int, count: int, returned: bool) -> int:
        """Take the surviving deliveries of an earlier incarnation of the shard as unacked; return how many there were.

        Those `returned` are requeued at once.
        """
        claimed = 0
        for low, part in self.queue.claim(sequence, count):
            claimed += part
            if returned:
                self.queue.requeue(low, part)
            else:
                self.outstanding.add(low, part)
                self.bear(part, self.weight_of(low, part))
        return claimed

    def settle(self, sequence: int, count: int, kind: int) -> int:
        """Settle deliveries of this consumer; return how many of the range were its own."""
        settled = 0
        nbytes = 0
        for low, part in self.outstanding.remove(sequence, count):
            settled += part
            nbytes += self.weight_of(low, part)
            if kind == SETTLE_REQUEUE:
                self.queue.requeue(low, part)
            elif kind == SETTLE_REJECT:
                self.queue.reject(low, part)
            else:
                self.queue.settle(low, part)
        self.lighten(settled, nbytes)
        return settled

    def hand_over(self, sequence: int, count: int, kind: int, taken: list[tuple[Queue, int, int, int]]) -> int:
        """Give up deliveries that stay unacked elsewhere until their settlement is decided, and return how many.

        Queue, sequence, count and kind of each range that was the consumer's own are appended to `taken`.
        """
        handed = 0
        nbytes = 0
        for low, part in self.outstanding.remove(sequence, count):
            handed += part
            nbytes += self.weight_of(low, part)
            taken.append((self.queue, low, part, kind))
        self.lighten(handed, nbytes)
        return handed

    def record_settled(self, now: int) -> None:
        """Record a settlement and adapt `usual`.

        One long interval alone says little: the consumer may have had no messages, or had to wait.
        """
        took = max(now - self.settled_at, 1)
        if self.settled_at:
            if not self.usual:
                self.usual = took
            elif took < self.usual:
                self.usual -= (self.usual - took) // 2
            else:
                self.usual += min(took - self.usual, self.usual)
        self.settled_at = now

    def requeue_all(self) -> int:
        """Requeue all unacked messages; return how many."""
        for low, high in self.outstanding.ranges():
            self.queue.requeue(low, high - low)
        return self.let_go_all()

    def let_go_all(self) -> int:
        """Drop all unacked messages from the count, since they are held elsewhere or the queue is gone; return how
        many.
        """
        total = self.outstanding.total
        self.outstanding.clear()
        self.lighten(total, 0)
        return total

    def give_back_all(self) -> None:
        """Return all unacked messages to the queue as if they had not been delivered: their holder will claim them."""
        for low, high in self.outstanding.ranges():
            self.queue.give_back(low, high - low)
        self.let_go_all()

    def leave_to(self, held: RangeSet) -> int:
        """Move all unacked messages to a lease; return how many."""
        for low, high in self.outstanding.ranges():
            held.add(low, high - low)
        return self.let_go_all()

    def hold_all(self, held: RangeSet) -> None:
        """Move all messages of a lease to this consumer, unacked."""
        for low, high in held.ranges():
            self.outstanding.add(low, high - low)
            self.bear(high - low, self.weight_of(low, high - low))
        held.clear()


def settle_rows(rows: bytes, consumers: dict[int, Consumer]) -> dict[Consumer, None]:
    """Apply settlements: rows of `penstock.batch.settlement_rows`.

    Rows for consumers that are gone are skipped. Return the consumers that were touched, in their order.
    """
    return apply_rows(rows, consumers, False, None)


def hand_over_rows(
    rows: bytes, consumers: dict[int, Consumer], taken: list[tuple[Queue, int, int, int]]
) -> dict[Consumer, None]:
    """Hand over the deliveries that settlements name (`Consumer.hand_over`); rows as in `settle_rows`.

    Return the consumers that were touched, in their order.
    """
    return apply_rows(rows, consumers, False, taken)


def hold_rows(rows: bytes, consumers: dict[int, Consumer]) -> dict[Consumer, None]:
    """Have consumers claim their earlier deliveries; rows as in `settle_rows`, those of kind requeue are requeued.

    Return the consumers with surviving deliveries, in their order.
    """
    return apply_rows(rows, consumers, True, None)


def apply_rows(
    rows: bytes, consumers: dict[int, Consumer], claims: bool, taken: list[tuple[Queue, int, int, int]] | None
) -> dict[Consumer, None]:
    """Claim rows, hand them over to `taken`, or settle them."""
    touched: dict[Consumer, None] = {}
    p = address_readonly(rows)
    size = len(rows)
    at = 0
    while at + SETTLED_ROW <= size:
        consumer = consumers.get(get64(p, at))
        if consumer is not None:
            sequence, count, kind = get64(p, at + OF_SEQUENCE), get32(p, at + OF_COUNT), get32(p, at + OF_KIND)
            if claims:
                found = consumer.claim(sequence, count, kind == SETTLE_REQUEUE)
            elif taken is not None:
                found = consumer.hand_over(sequence, count, kind, taken)
            else:
                found = consumer.settle(sequence, count, kind)
            if found:
                touched[consumer] = None
        at += SETTLED_ROW
    return touched
