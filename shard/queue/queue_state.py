"""The state of one queue on its shard, beside its contents."""

from __future__ import annotations

from penstock.batch.batch_cy import HAS_HEADERS, Batch, BatchBuilder
from penstock.limits.features import UNCONSUMED, QueueFeatures
from penstock.limits.watermarks import REJECTING, QueueLimits
from penstock.node.logs import get_logger
from router.model.delaying import DELAY_QUEUE, delayed_by
from router.model.records import Queue as Record
from shard.contents.delay_cy import DelayQueue
from shard.contents.errors import StoreError
from shard.contents.last_value import LastValues
from shard.contents.priority_cy import PriorityQueue
from shard.contents.queue_cy import NEVER, UNLIMITED, Queue
from shard.contents.segment_cy import Origin, Range, Segment
from shard.queue.dead_letters import counted
from shard.queue.deletion import Deletion, Stage
from shard.queue.dispatch import Ring
from shard.queue.dropping import DROPPING, NO, DropEvent, Dropping
from shard.queue.exemption import Exemption
from shard.queue.lease import Lease, next_expiry
from shard.queue.pending_transactions import PendingTransactions
from shard.queue.residence import OPEN, RESIDENCE, Residence, Step
from shard.queue.saturation import Saturation
from shard.queue.unburied import Unburied
from shard.queue.usage import Usage
from shard.store.journal import Journal

log = get_logger()

# Ready bytes behind which an arriving message will wait.
LINGER_BYTES = 8 * 1024 * 1024


class QueueState:
    """One queue of this shard: its record from the topology, contents, consumers and flow state.

    Moves change its `residence`, and requests to delete it the stage of its `deletion`. Contents beyond its `window`,
    messages and bytes, should not be in memory; `weighed` is the memory that the shard counts for it. It `rejects`
    publishes beyond its limit if its overflow says so. If many of its dead are `unburied` it `keeps_back` further
    messages from dying.
    """

    __slots__ = (
        "auto_delete", "contents", "deletion", "dropping", "exemption", "features", "has_marks", "id",
        "keeps_back", "last_values", "leases", "limits", "name", "owner", "pending", "rejects", "residence", "ring",
        "saturation", "slot", "unburied", "usage", "vhost", "weighed", "window",
    )  # fmt: skip

    def __init__(self, record: Record, now: int, base: int, journal: Journal | None) -> None:
        """`base` is the first sequence number. Without a journal nothing is stored."""
        durable = record.durable and journal is not None
        self.id = record.queue_id
        self.slot = record.slot
        self.vhost = record.vhost
        self.name = record.name
        self.auto_delete = record.auto_delete
        self.owner = record.owner
        features = QueueFeatures.from_wire(record.features)
        limits = QueueLimits.from_wire(record.limits)
        self.last_values: LastValues | None = None
        if features.type == DELAY_QUEUE:
            self.contents: Queue = DelayQueue(self.id, self, base, journal, durable)
        elif features.max_priority:
            self.contents = PriorityQueue(self.id, self, features.max_priority, base, journal, durable)
        else:
            self.contents = Queue(self.id, self, base, journal, durable)
        self.ring = Ring(features.single_active_consumer)
        self.saturation = Saturation(limits.marks, now)
        self.usage = Usage(now)
        self.unburied = Unburied()
        self.keeps_back = False
        self.pending = PendingTransactions()
        self.exemption = Exemption()
        self.dropping: Dropping = NO
        self.residence: Residence = OPEN
        self.deletion = Deletion()
        self.leases: dict[str, Lease] = {}
        self.weighed = 0
        self.features = features
        self.apply_limits(limits, features, now)

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    @property
    def delays(self) -> str | None:
        """The exchange whose delayed messages wait in it; None if it is no delay queue."""
        return delayed_by(self.name) if self.features.type == DELAY_QUEUE else None

    def move(self, step: Step) -> None:
        """Make a step of a move between shards. IllegalTransition if it does not follow."""
        self.residence = RESIDENCE.after(self.residence, step)

    def apply_limits(self, limits: QueueLimits, features: QueueFeatures, now: int) -> None:
        """Adopt limits and features, initially and when a policy changes; `max_priority` stays as it was.

        The contents are judged by them at the end of the turn, but messages keep their expiry.
        """
        if limits.marks != self.saturation.marks or features.reserve != self.features.reserve:
            self.saturation.set_marks(limits.marks, now)
        self.limits = limits
        self.has_marks = bool(limits.marks)
        self.rejects = limits.overflow in REJECTING
        self.features = features
        self.window = window_of(limits)
        self.exemption.fed = None
        ttl = -1 if features.message_ttl is None else features.message_ttl * 1000
        delivery_limit = -1 if features.delivery_limit is None else features.delivery_limit
        self.contents.configure(ttl, features.dead_letter_exchange is not None, delivery_limit)
        key = features.last_value_key
        if limits.overflow != "last-value" or key is None or isinstance(self.contents, PriorityQueue):
            self.last_values = None
        elif self.last_values is None or self.last_values.key != key:
            self.last_values = LastValues(key)
        self.contents.merges = self.last_values is None

    def recover(self, segments: list[Segment], leases: dict[int, int], counts: list[tuple[int, int]]) -> None:
        """Restore the contents of an earlier incarnation from the store (`Queue.recover`), with delivery counts."""
        self.contents.recover(segments, leases)
        if self.features.delivery_limit is not None:
            for sequence, deliveries in counts:
                self.contents.came_back(sequence, deliveries)
        if self.last_values is not None:
            for segment in (segment for segment in segments if segment.count == 1):
                try:
                    self.last_values.recall(self.contents, segment.sequence)
                except StoreError as error:
                    log.error("message cannot be read, its key is not known", queue=self.name, vhost=self.vhost,
                              problem=str(error))  # fmt: skip

    def enqueue(self, batch: Batch, first: int, count: int, now: int, origin: Origin | None = None) -> None:
        """Enqueue messages of that origin."""
        if self.last_values is None:
            self.contents.enqueue(batch, first, count, now, origin if self.has_marks else None)
        else:
            self.last_values.enqueue(self.contents, batch, first, count, now)

    def as_sent(self, item: Range) -> Range:
        """Popped messages as their consumer receives them: with delivery counts if there is a delivery limit."""
        if not item.redelivered or self.features.delivery_limit is None:
            return item
        builder = BatchBuilder()
        for i in range(item.count):
            row = item.first + i
            address, header, body = item.batch.record(row)
            deliveries = self.contents.delivery_count(item.sequence + i)
            builder.add(address, counted(header, deliveries), body, item.batch.flags(row) | HAS_HEADERS)
        return Range(builder.finish(), 0, item.count, item.sequence, True, item.body_bytes)

    def next_event(self) -> int:
        """When the queue next needs attention without an operation: a message, a lease or the queue itself expires."""
        if self.residence is not OPEN:
            return NEVER
        when = self.contents.next_expiry() if self.contents.expiring and not self.keeps_back else NEVER
        if self.leases:
            when = min(when, next_expiry(self.leases))
        expires = self.features.expires
        if expires is not None and not self.ring.consumers and self.deletion.stage is Stage.KEPT:
            when = min(when, self.usage.last + expires * 1000)
        return when

    def is_left(self) -> bool:
        """Whether auto-delete applies: the queue had consumers and has none."""
        return self.auto_delete and self.usage.had_consumers and not self.ring.consumers

    def is_forgotten(self, now: int) -> bool:
        """Whether the queue has been unused for as long as it is to be kept (x-expires)."""
        expires = self.features.expires
        return expires is not None and not self.ring.consumers and now >= self.usage.last + expires * 1000

    def exceeds_window(self) -> bool:
        """Whether the queue has more than may be in memory."""
        return self.window is not None and (self.depth > self.window[0] or self.depth_bytes > self.window[1])

    @property
    def depth(self) -> int:
        """Messages that count against the marks: ready, unacked, dead ones whose letters find no room, and the change
        that prepared transactions will make.
        """
        contents = self.contents
        return contents.ready + contents.unacked + self.unburied.count + self.pending.count

    @property
    def depth_bytes(self) -> int:
        """The whole bytes of `depth`."""
        contents = self.contents
        return contents.ready_whole + contents.unacked_whole + self.unburied.whole + self.pending.whole

    @property
    def weight(self) -> int:
        """The memory that its contents take, in bytes; dead messages are not included."""
        return self.contents.weight()

    @property
    def lingers(self) -> bool:
        """Whether an arriving message will wait: then it must not occupy an acceptor's arena."""
        return not self.ring.consumers or self.contents.ready_whole > LINGER_BYTES

    @property
    def counted(self) -> tuple[int, int]:
        """Messages and bytes of bodies that count against a limit: ready ones as in RabbitMQ, in a strict ring all.

        Room reserved for transactions counts as used.
        """
        contents, pending = self.contents, self.pending
        if self.limits.overflow == "ring-strict":
            nbytes = contents.ready_bytes + contents.unacked_bytes + self.unburied.nbytes
            return self.depth + pending.reserved, nbytes + pending.reserved_bytes
        return contents.ready + pending.reserved, contents.ready_bytes + pending.reserved_bytes

    def is_full(self) -> bool:
        """Whether a rejecting queue accepts no message, not even an empty one."""
        return self.limits.max_count is not None and self.counted[0] >= self.limits.max_count

    def fitting(self, batch: Batch, first: int, count: int) -> int:
        """How many messages a rejecting queue accepts until one would exceed a limit."""
        messages, nbytes = self.counted
        if self.limits.max_count is not None:
            count = min(count, max(self.limits.max_count - messages, 0))
        if self.limits.max_bytes is not None:
            count = batch.fit(first, count, max(self.limits.max_bytes - nbytes, 0))
        return count

    @property
    def stands_aside(self) -> bool:
        """Whether the queue stops no producer though it has marks."""
        return self.exemption.yields or (self.features.unprivileged_reason is not None and self.is_unprivileged)

    @property
    def is_unprivileged(self) -> bool:
        """Whether the queue is unprivileged: it may not stop producers (router/authority/standing.py)."""
        unprivileged_reason = self.features.unprivileged_reason
        return unprivileged_reason is not None and not (unprivileged_reason == UNCONSUMED and self.usage.consumed)

    def drop_excess(self, unprivileged_limit: int) -> None:
        """Drop the messages of a dropping queue beyond its limit.

        An unprivileged queue, and one that unprivileged bindings feed beyond its marks, drops those beyond
        `unprivileged_limit` bytes (0: no limit).
        """
        overflow = self.limits.overflow
        if overflow in ("drop-head", "ring", "last-value"):
            max_count = UNLIMITED if self.limits.max_count is None else self.limits.max_count
            max_bytes = UNLIMITED if self.limits.max_bytes is None else self.limits.max_bytes
            if self.contents.ready > max_count or self.contents.ready_bytes > max_bytes:
                self.contents.drop_head(max_count, max_bytes)
        elif (
            overflow == "flow"
            and unprivileged_limit
            and (
                self.exemption.fed is not None
                or (self.features.unprivileged_reason is not None and self.is_unprivileged)
            )
        ):
            self.drop_oldest(unprivileged_limit)

    def drop_oldest(self, limit: int) -> None:
        """Drop the oldest ready messages until the depth is at most `limit` bytes."""
        contents = self.contents
        held = self.depth_bytes
        if held <= limit:
            if self.dropping is not NO and 2 * held < limit:
                self.dropping = DROPPING.after(self.dropping, DropEvent.FALL)
            return
        self.dropping = DROPPING.after(self.dropping, DropEvent.EXCEED)
        while held > limit and contents.ready:
            share = max((held - limit) * self.depth // held, 1)
            contents.drop_head(max(contents.ready - share, 0), UNLIMITED)
            held = self.depth_bytes


def window_of(limits: QueueLimits) -> tuple[int, int] | None:
    """The messages and bytes that a queue may have in memory; None: as many as there is room for.

    Under flow control these are the bounds of its depth; it is deeper only where it does not hold its producers.
    """
    if limits.overflow == "spill":
        count, nbytes = limits.max_count, limits.max_bytes
    elif limits.marks:
        marks = limits.marks
        count = marks.stop_count + 2 * marks.overshoot_count if marks.stop_count else None
        nbytes = marks.stop_bytes + 2 * marks.overshoot_bytes if marks.stop_bytes else None
    else:
        count = nbytes = None
    if count is None and nbytes is None:
        return None
    return UNLIMITED if count is None else count, UNLIMITED if nbytes is None else nbytes
