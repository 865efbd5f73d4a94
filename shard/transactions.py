"""Whether a transaction can be taken in: all of what it publishes, or nothing (AMQP 0-9-1, 1.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock import bus
from shard.queues import QueueState

if TYPE_CHECKING:
    from shard.core import ShardCore


def full_for(core: ShardCore, parts: Sequence[Any], publishes: list[list[Any]]) -> QueueState | None:
    """The first queue that would refuse some of these publishes; what came before them has taken effect."""
    needs: dict[QueueState, list[int]] = {}
    for _, ids, part, first, count in publishes:
        octets = bus.batch_at(parts, part).body_bytes(first, count)
        for queue in (core.queues[id] for id in ids if id in core.queues):
            if queue.rejects:
                need = needs.setdefault(queue, [0, 0])
                need[0] += count
                need[1] += octets
    for queue, (count, octets) in needs.items():
        core.settle_down(queue)
        if not admits(queue, count, octets):
            return queue
    return None


def admits(queue: QueueState, count: int, octets: int) -> bool:
    """Whether a rejecting queue takes so much; consumers take at once what they have credit for."""
    taken = sum(max(consumer.credit(), 0) for level in queue.ring.levels for consumer in level.awake)
    if count <= taken:
        return True
    contents, limits = queue.contents, queue.limits
    return (limits.max_count is None or contents.ready + count - taken <= limits.max_count) and (
        limits.max_bytes is None or contents.ready_bytes + octets <= limits.max_bytes
    )
