"""When settlements leave for their shard.

Each turn wakes the shard, and nothing waits for most settlements: they leave with the next turn that brings something
else, or by themselves a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.links.unacked_cy import Settlements

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.state import AcceptorState
    from acceptor.gates.queue_gate import QueueGate

# The settlements of a channel with more consumers than this are not checked: they count as awaited.
FEW = 8


class Settling:
    """The settlements of an acceptor's channels, on their way; `queue_gates` are the gates of queues, by queue id."""

    def __init__(self, acceptor: AcceptorState, queue_gates: dict[int, QueueGate]) -> None:
        self.acceptor = acceptor
        self.queue_gates = queue_gates

    def places(self, shards: set[int]) -> list[Settlements]:
        """Return where to put settlements, by shard, and last those of unassigned queues. The turns to `shards` get an
        operation for them.
        """
        acceptor = self.acceptor
        for shard in shards:
            acceptor.links[shard].turn.settling(acceptor.now)
        places = [link.turn.contents.settlements for link in acceptor.links]
        places.append(acceptor.limbo)
        return places

    def settled(self, channel: ChannelState, count: int, whole: int) -> None:
        """Send the settlements of `count` messages of a channel at once if a consumer or producer may wait for them.
        `whole` is the size in bytes of all that was unacked before.
        """
        if self.are_awaited(channel, count, whole):
            for shard in channel.shards:
                self.acceptor.links[shard].turn.hurries = True

    def are_awaited(self, channel: ChannelState, count: int, whole: int) -> bool:
        """Whether they may let a shard deliver more, or a producer publish."""
        if len(channel.consumers) > FEW:
            return True
        held = len(channel.unacked) + count
        if 0 < channel.shared_prefetch.limit < 2 * held:
            return True
        if 0 < channel.shared_prefetch.nbytes < 2 * whole:
            return True
        for link in self.acceptor.links:
            if link.waiting:
                return True
        for consumer in channel.consumers.values():
            if 0 < consumer.prefetch < 2 * held:
                return True
            queue_gate = self.queue_gates.get(consumer.queue.queue_id)
            if queue_gate is not None and (queue_gate.waiting or queue_gate.is_saturated()):
                return True
        return False
