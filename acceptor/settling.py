"""When settlements leave for their shard.

Each turn wakes the shard, and most settlements are waited for by nobody: they go with what else there is to say, or by
themselves a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acceptor.channel import Channel

# How long they may wait.
SETTLING_SECONDS = 0.001
# Of a channel with more consumers nobody looks whether its settlements are awaited.
FEW = 8


def awaited(channel: Channel, count: int, whole: int) -> bool:
    """Whether the settlements of so many messages may let a shard deliver more, or a producer publish; all that the
    channel had in hand before counted so much whole.
    """
    if len(channel.consumers) > FEW:
        return True
    core = channel.core
    held = len(channel.unacked) + count
    if 0 < channel.shared_prefetch.limit < 2 * held:
        return True
    if 0 < channel.shared_prefetch.octets < 2 * whole:
        return True
    for consumer in channel.consumers.values():
        if 0 < consumer.prefetch < 2 * held:
            return True
        inlet = core.gates.inlets.get(consumer.queue.queue_id)
        if inlet is not None and (inlet.waiting or inlet.is_saturated()):
            return True
    return any(link.waiting for link in core.links)
