"""What a shard knows of one of its queues beside the contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.batch_cy import HAS_HEADERS, Batch, BatchBuilder
from penstock.bus import MESSAGE_WEIGHT
from penstock.features import QueueFeatures
from penstock.logs import get_logger
from penstock.watermarks import REJECTING, QueueLimits
from router.records import Queue as Record
from shard.consumer_cy import Consumer
from shard.dead_letters import counted
from shard.dispatch import Ring
from shard.environment import StoreError
from shard.journal import Journal
from shard.last_value import LastValues
from shard.priority_cy import PriorityQueue
from shard.queue_cy import NEVER, UNLIMITED, Queue
from shard.saturation import Saturation
from shard.segment_cy import Range, Segment

log = get_logger()

# With so much ready before it, a message waits.
LINGER_BYTES = 8 * 1024 * 1024


class QueueState:
    """One queue of this shard: its record from the topology, contents, consumers and flow state.

    `had_consumers` arms auto-delete; `fenced` is set while the router is asked to delete the queue, and `deleters` are
    those who wait for its answer; `bereft` are consumers that are still to be told that the queue has gone; `used` is
    when anybody last used it, in microseconds since 1970.
    """

    __slots__ = (
        "auto_delete", "bereft", "contents", "deleters", "exclusive_consumer", "features", "fenced", "had_consumers",
        "id", "last_values", "limits", "name", "reserved", "reserved_bytes", "ring", "saturation", "slot", "used",
        "vhost", "weighed",
    )  # fmt: skip

    def __init__(self, record: Record, now: int, base: int, journal: Journal | None) -> None:
        """`base` is the first sequence number. Without a journal nothing is stored."""
        durable = record.durable and journal is not None
        self.id = record.queue_id
        self.slot = record.slot
        self.vhost = record.vhost
        self.name = record.name
        self.auto_delete = record.auto_delete
        features = QueueFeatures.from_wire(record.features)
        limits = QueueLimits.from_wire(record.limits)
        self.last_values: LastValues | None = None
        if features.max_priority:
            self.contents: Queue = PriorityQueue(self.id, self, features.max_priority, base, journal, durable)
        else:
            self.contents = Queue(self.id, self, base, journal, durable)
        self.ring = Ring(features.single_active_consumer)
        self.saturation = Saturation(limits.marks, now)
        self.exclusive_consumer: Consumer | None = None
        self.had_consumers = False
        self.fenced = False
        self.deleters: list[Callable[[Any], None]] = []
        self.bereft: list[Consumer] = []
        self.weighed = 0
        self.reserved = 0
        self.reserved_bytes = 0
        self.used = now
        self.govern(limits, features)

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def govern(self, limits: QueueLimits, features: QueueFeatures) -> None:
        """Take up limits and features, at first and when a policy changes them; `max_priority` stays what it was.

        What is in the queue already is judged anew at the end of the turn, but messages keep the expiry that they have.
        """
        self.limits = limits
        self.features = features
        self.saturation.marks = limits.marks
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
        """Take back what the store had of an earlier life: see `Queue.recover`; how often which message came back."""
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

    def enqueue(self, batch: Batch, first: int, count: int, now: int) -> None:
        """Take in messages."""
        if self.last_values is None:
            self.contents.enqueue(batch, first, count, now)
        else:
            self.last_values.enqueue(self.contents, batch, first, count, now)

    def as_sent(self, item: Range) -> Range:
        """What was taken off the queue as its consumer sees it: where there is a delivery limit, with counts."""
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
        """When there is something to do here if nothing happens before: what is at the head, or the queue, expires."""
        when = self.contents.next_expiry() if self.contents.expiring else NEVER
        if self.features.expires is not None and not self.ring.consumers and not self.fenced:
            when = min(when, self.used + self.features.expires * 1000)
        return when

    def is_left(self) -> bool:
        """Whether it is to go for having had its last consumer."""
        return self.auto_delete and self.had_consumers and not self.ring.consumers

    def is_forgotten(self, now: int) -> bool:
        """Whether nobody has used the queue for as long as it is to be kept (x-expires)."""
        expires = self.features.expires
        return expires is not None and not self.ring.consumers and now >= self.used + expires * 1000

    @property
    def depth(self) -> int:
        """Messages that count against the marks: ready and unacked."""
        return self.contents.ready + self.contents.unacked

    @property
    def depth_bytes(self) -> int:
        return self.contents.ready_bytes + self.contents.unacked_bytes

    @property
    def weight(self) -> int:
        """What its contents count in memory."""
        return self.depth_bytes + MESSAGE_WEIGHT * self.depth - self.contents.paged

    @property
    def lingers(self) -> bool:
        """Whether what comes now will wait: then it must not occupy an acceptor's arena."""
        return not self.ring.consumers or self.contents.ready_bytes > LINGER_BYTES

    @property
    def rejects(self) -> bool:
        """Whether publishes beyond the limit are refused."""
        return self.limits.overflow in REJECTING

    @property
    def counted(self) -> tuple[int, int]:
        """Messages and octets that count against a limit: ready ones as in RabbitMQ, in a strict ring all.

        Room that is kept for transactions is used already.
        """
        if self.limits.overflow == "ring-strict":
            return self.depth + self.reserved, self.depth_bytes + self.reserved_bytes
        return self.contents.ready + self.reserved, self.contents.ready_bytes + self.reserved_bytes

    def is_full(self) -> bool:
        """Whether a rejecting queue takes no message, be it an empty one."""
        return self.limits.max_count is not None and self.counted[0] >= self.limits.max_count

    def fitting(self, batch: Batch, first: int, count: int) -> int:
        """How many messages a rejecting queue takes until one would exceed a limit."""
        messages, octets = self.counted
        if self.limits.max_count is not None:
            count = min(count, max(self.limits.max_count - messages, 0))
        if self.limits.max_bytes is not None:
            count = batch.fit(first, count, max(self.limits.max_bytes - octets, 0))
        return count

    def drop_excess(self) -> None:
        """Keep a queue that drops within its limit."""
        if self.limits.overflow in ("drop-head", "ring", "last-value"):
            max_count = UNLIMITED if self.limits.max_count is None else self.limits.max_count
            max_bytes = UNLIMITED if self.limits.max_bytes is None else self.limits.max_bytes
            if self.contents.ready > max_count or self.contents.ready_bytes > max_bytes:
                self.contents.drop_head(max_count, max_bytes)
