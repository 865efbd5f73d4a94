"""When settlements leave for their shard.

Each turn wakes the shard, and nothing waits for most settlements: they leave with the next turn that brings something
else, or by themselves a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acceptor.channel import Channel

# How long settlements may wait.
SETTLING_SECONDS = 0.001
# The settlements of a channel with more consumers than this are not checked: they count as awaited.
FEW = 8


def awaited(channel: Channel, count: int, whole: int) -> bool:
    """Whether the settlements of `count` messages may let a shard deliver more, or a producer publish; all messages
    that the channel had unacked before counted `whole`.
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
