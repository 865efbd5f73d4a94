"""What a shard knows of one of its queues beside the contents."""

from __future__ import annotations

from penstock.batch_cy import Batch
from penstock.features import QueueFeatures
from penstock.watermarks import QueueLimits
from shard.dispatch import Ring
from shard.queue_cy import UNLIMITED, Consumer, Queue
from shard.saturation import Saturation

# With so much ready before it, a message waits.
LINGER_BYTES = 8 * 1024 * 1024


class QueueState:
    """One queue of this shard: its record from the topology, contents, consumers and flow state.

    `had_consumers` arms auto-delete; `fenced` is set while the router is asked to delete the queue.
    """

    __slots__ = (
        "auto_delete", "contents", "exclusive_consumer", "features", "fenced", "had_consumers", "id", "limits", "name",
        "ring", "saturation", "slot", "vhost", "weighed",
    )  # fmt: skip

    def __init__(
        self, id: int, slot: int, vhost: str, name: str, auto_delete: bool, limits: QueueLimits,
        features: QueueFeatures, now: int,
    ) -> None:  # fmt: skip
        self.id = id
        self.slot = slot
        self.vhost = vhost
        self.name = name
        self.auto_delete = auto_delete
        self.limits = limits
        self.features = features
        self.contents = Queue(id, self)
        self.ring = Ring(features.single_active_consumer)
        self.saturation = Saturation(limits.marks, now)
        self.exclusive_consumer: Consumer | None = None
        self.had_consumers = False
        self.fenced = False
        self.weighed = 0

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def govern(self, limits: QueueLimits, features: QueueFeatures) -> None:
        """A policy has changed them: what is in the queue already is judged anew at the end of the turn."""
        self.limits = limits
        self.features = features
        self.saturation.marks = limits.marks

    @property
    def depth(self) -> int:
        """Messages that count against the marks: ready and unacked."""
        return self.contents.ready + self.contents.unacked

    @property
    def depth_bytes(self) -> int:
        return self.contents.ready_bytes + self.contents.unacked_bytes

    @property
    def lingers(self) -> bool:
        """Whether what comes now will wait: then it must not occupy an acceptor's arena."""
        return not self.ring.consumers or self.contents.ready_bytes > LINGER_BYTES

    @property
    def rejects(self) -> bool:
        """Whether publishes beyond the limit are refused."""
        return self.limits.overflow in ("reject-publish", "reject-publish-dlx")

    def is_full(self) -> bool:
        """Whether a rejecting queue takes no message, be it an empty one."""
        return self.limits.max_count is not None and self.contents.ready >= self.limits.max_count

    def fitting(self, batch: Batch, first: int, count: int) -> int:
        """How many messages a rejecting queue takes until one would exceed a limit; RabbitMQ counts ready ones only."""
        if self.limits.max_count is not None:
            count = min(count, max(self.limits.max_count - self.contents.ready, 0))
        if self.limits.max_bytes is not None:
            count = batch.fit(first, count, max(self.limits.max_bytes - self.contents.ready_bytes, 0))
        return count

    def drop_excess(self) -> None:
        """Keep a drop-head queue within its limit."""
        if self.limits.overflow == "drop-head":
            max_count = UNLIMITED if self.limits.max_count is None else self.limits.max_count
            max_bytes = UNLIMITED if self.limits.max_bytes is None else self.limits.max_bytes
            if self.contents.ready > max_count or self.contents.ready_bytes > max_bytes:
                self.contents.drop_head(max_count, max_bytes)
