# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Who takes from a queue: what they have in hand, what they may still be sent, and how it is settled."""

from __future__ import annotations

from typing import Any

import cython

from shard.contents.queue_cy import UNLIMITED

if not cython.compiled:
    from penstock.batch.octets import address_readonly, get32, get64
    from penstock.batch.ranges_cy import RangeSet
    from shard.contents.queue_cy import Queue
    from shard.contents.segment_cy import Range
    from shard.queue.outlet_cy import Outlet

    C_ACK, C_REQUEUE, C_REJECT = 0, 1, 2
    SETTLED_ROW = 24


ACK, REQUEUE, REJECT = range(3)
"""Kinds of settlements."""


class Hand:
    """What the consumers of a user have in hand from this shard, and may have: messages, and octets of messages as they
    count whole, which are counted where there is a limit of them.

    Without a limit that is UNLIMITED. `sleepers` are consumers that wait for less to be in hand, in the order in which
    they fell asleep; `asleep` has all hands that have such. `told` once the log says that some wait.
    """

    def __init__(self, user: str, asleep: dict[Hand, None]) -> None:
        self.user = user
        self.count = 0
        self.octets = 0
        self.count_limit = UNLIMITED
        self.octets_limit = UNLIMITED
        self.sleepers: dict[Consumer, None] = {}
        self.asleep = asleep
        self.told = False

    def is_full(self) -> bool:
        return self.count >= self.count_limit or self.octets >= self.octets_limit

    def sleep(self, consumer: Consumer) -> None:
        self.sleepers[consumer] = None
        self.asleep[self] = None


class Group:
    """The consumers and gets of a channel, and the prefetch limit they share (basic.qos with global); 0 is no limit.

    Below 0 the limit is the acceptor's to keep, since other shards take part: what may be sent is `granted`, for a turn
    at a time. A group is `hungry` from when its acceptor is told that more could be sent until it grants something.
    `sleepers` are consumers that a limit may keep from being served, in the order in which they fell asleep.

    From this shard they may have `octets_limit` in hand as well, of messages as they count whole, before what `octets`
    counts of that keeps them waiting; 0 is no limit. It is counted for a group that `weighs`. What it has in hand is in
    the `hand` of its user too, if that has limits.
    """

    def __init__(self, limit: int, id: int = 0, octets_limit: int = 0, weighs: bool = False) -> None:
        self.id = id
        self.limit = limit
        self.octets_limit = octets_limit
        self.weighs = weighs
        self.hand: Hand | None = None
        self.outstanding = 0
        self.octets = 0
        self.granted = 0
        self.hungry = False
        self.members: set[Consumer] = set()
        self.sleepers: dict[Consumer, None] = {}

    def is_limited(self) -> bool:
        """Whether what is settled of one may let another be served."""
        return self.limit != 0 or self.octets_limit > 0

    def join(self, hand: Hand) -> None:
        """It is of a user with limits."""
        if self.hand is None:
            self.hand = hand
            hand.count += self.outstanding
            hand.octets += self.octets

    def bear(self, count: int, octets: int) -> int:
        """So many more messages are in hand, and octets; or less."""
        self.outstanding += count
        self.octets += octets
        if self.hand is not None:
            self.hand.count += count
            self.hand.octets += octets
        return 0


class Consumer:
    """Who takes from a queue: a consumer, or the gets of a channel.

    `window` is how many octets, of messages as they count whole, may still be sent before its acceptor reports that
    some were written to the socket; `prefetch` 0 is no limit; `link` is its acceptor's. A `cancelled` one gets nothing
    more but may have deliveries in hand; the gets of a channel are one from the start. `channel` is the group it
    belongs to, `group` the one whose limit binds it: gets are not limited. `priority` and `level` are the dispatch's.
    `age` counts consumers from the first that the shard had, over all of its lives; one that came `again` was there in
    the last one. `outlet` is its connection's, None for one that is not served. `elected` is who was told to be the
    active one of its queue. `settled_at` is when something of it was settled last, microseconds since 1970; 0 if never;
    `usual` how long it takes from one such time to the next, 0 before the second. `lease` is whom it leaves to what it
    has in hand (shard/serving/leases.py), if not to the queue. `octets` is its part of what its group counts.
    """

    def __init__(self, id: int, queue: Queue, no_ack: bool, prefetch: int, group: Group, link: Any) -> None:
        self.id = id
        self.queue = queue
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.group = group
        self.outstanding = RangeSet()
        self.octets = 0
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
        """How many messages it may be sent now.

        Without acks it takes nothing of the limit it shares, but waits while others have it used up, as with RabbitMQ.
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

    def has_its_hands_full(self) -> bool:
        """Whether its group or its user has in hand what it may. Without acks it takes nothing of that."""
        if self.no_ack:
            return False
        return 0 < self.group.octets_limit <= self.group.octets or self.waits_for_user()

    def waits_for_user(self) -> bool:
        """Whether its user has in hand what it may."""
        return self.group.hand is not None and not self.no_ack and self.group.hand.is_full()

    def sleep_if_user_is_full(self) -> None:
        if self.group.hand is not None and self.waits_for_user():
            self.group.hand.sleep(self)

    def rest(self) -> None:
        """It need not be woken any more."""
        self.group.sleepers.pop(self, None)
        if self.group.hand is not None:
            self.group.hand.sleepers.pop(self, None)

    def lacks_grant(self) -> bool:
        """Whether it could be sent more if only its acceptor granted it."""
        if not self.active or self.window <= 0 or self.group.limit >= 0 or self.group.granted > 0:
            return False
        if self.has_its_hands_full():
            return False
        return self.no_ack or self.prefetch == 0 or self.outstanding.total < self.prefetch

    def take(self, count: int) -> list[Range]:
        """Take from the queue within its window, that of its connection, and what its channel and its user may have in
        hand.
        """
        window = self.window
        if self.outlet is not None:
            window = min(window, self.outlet.window)
        if self.group.octets_limit > 0 and not self.no_ack:
            window = min(window, self.group.octets_limit - self.group.octets)
        if self.group.hand is not None and not self.no_ack:
            window = min(window, self.group.hand.octets_limit - self.group.hand.octets)
        taken = self.queue.take(count, window, self.no_ack)
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
        """Deliveries that were taken off the queue for this consumer are outstanding with it."""
        self.outstanding.add(item.sequence, item.count)
        self.bear(item.count, item.whole if self.group.weighs else 0)
        if self.group.limit < 0:
            self.group.granted -= item.count

    def bear(self, count: int, octets: int) -> int:
        """So much more is in hand."""
        self.octets += octets
        return self.group.bear(count, octets)

    def weight_of(self, sequence: int, count: int) -> int:
        """What messages in hand count, where that is counted."""
        return self.queue.size_of(sequence, count) if self.group.weighs else 0

    def lighten(self, count: int, octets: int) -> int:
        """So much less is in hand. Once that is no message it is nothing: sizes of what cannot be read are guesses."""
        return self.bear(-count, -self.octets if self.outstanding.total == 0 else -octets)

    def claim(self, sequence: int, count: int, returned: bool) -> int:
        """Have in hand again what is still there of deliveries in an earlier life of the shard; how many.

        What had been `returned` goes back to the queue at once.
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
        """Settle deliveries of this consumer; how many of the range were its own."""
        settled = 0
        octets = 0
        for low, part in self.outstanding.remove(sequence, count):
            settled += part
            octets += self.weight_of(low, part)
            if kind == C_REQUEUE:
                self.queue.requeue(low, part)
            elif kind == C_REJECT:
                self.queue.reject(low, part)
            else:
                self.queue.settle(low, part)
        self.lighten(settled, octets)
        return settled

    def hand_over(self, sequence: int, count: int, kind: int, taken: list[tuple[Queue, int, int, int]]) -> int:
        """Deliveries of this consumer stay unacked, with somebody else, until it is known whether they are settled:
        queue, sequence, count and kind of what was its own of the range go there. How many those were.
        """
        handed = 0
        octets = 0
        for low, part in self.outstanding.remove(sequence, count):
            handed += part
            octets += self.weight_of(low, part)
            taken.append((self.queue, low, part, kind))
        self.lighten(handed, octets)
        return handed

    def note_settled(self, now: int) -> None:
        """Something of it has been settled. A long time alone says little: it may have had nothing, or had to wait."""
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
        """Put everything outstanding back; how many messages."""
        for low, high in self.outstanding.ranges():
            self.queue.requeue(low, high - low)
        return self.let_go_all()

    def let_go_all(self) -> int:
        """Have nothing in hand any more: somebody else has it, or the queue is gone; how many messages that were."""
        total = self.outstanding.total
        self.outstanding.clear()
        self.lighten(total, 0)
        return total

    def give_back_all(self) -> None:
        """Put everything outstanding back as if it had not been taken: it is known who has it in hand."""
        for low, high in self.outstanding.ranges():
            self.queue.give_back(low, high - low)
        self.let_go_all()

    def leave_to(self, held: RangeSet) -> int:
        """Have a lease hold everything outstanding; how many messages."""
        for low, high in self.outstanding.ranges():
            held.add(low, high - low)
        return self.let_go_all()

    def hold_all(self, held: RangeSet) -> None:
        """What a lease held is outstanding with this consumer, and the lease holds nothing."""
        for low, high in held.ranges():
            self.outstanding.add(low, high - low)
            self.bear(high - low, self.weight_of(low, high - low))
        held.clear()


def settle_rows(rows: bytes, consumers: dict[int, Consumer]) -> dict[Consumer, None]:
    """Apply settlements: rows of consumer id (8 octets), sequence (8), count (4) and kind (4), little-endian.

    Rows for consumers that are gone are skipped. Returns the consumers that were touched, in their order.
    """
    return apply_rows(rows, consumers, False, None)


def hand_over_rows(
    rows: bytes, consumers: dict[int, Consumer], taken: list[tuple[Queue, int, int, int]]
) -> dict[Consumer, None]:
    """Take what settlements name out of the hands of consumers (`Consumer.hand_over`): rows as of `settle_rows`.

    Returns the consumers that were touched, in their order.
    """
    return apply_rows(rows, consumers, False, taken)


def hold_rows(rows: bytes, consumers: dict[int, Consumer]) -> dict[Consumer, None]:
    """Have consumers claim what they had in hand: rows as of `settle_rows`; those of kind requeue give it back.

    Returns the consumers of which anything was there, in their order.
    """
    return apply_rows(rows, consumers, True, None)


def apply_rows(
    rows: bytes, consumers: dict[int, Consumer], claims: bool, taken: list[tuple[Queue, int, int, int]] | None
) -> dict[Consumer, None]:
    """Rows are claimed, handed over to `taken`, or settled."""
    touched: dict[Consumer, None] = {}
    p = address_readonly(rows)
    size = len(rows)
    at = 0
    while at + SETTLED_ROW <= size:
        consumer = consumers.get(get64(p, at))
        if consumer is not None:
            sequence, count, kind = get64(p, at + 8), get32(p, at + 16), get32(p, at + 20)
            if claims:
                found = consumer.claim(sequence, count, kind == C_REQUEUE)
            elif taken is not None:
                found = consumer.hand_over(sequence, count, kind, taken)
            else:
                found = consumer.settle(sequence, count, kind)
            if found:
                touched[consumer] = None
        at += SETTLED_ROW
    return touched
