"""Invariants of consumers: every message that can be delivered has been, and no channel has more than it may have."""

from __future__ import annotations

from acceptor.clients.channel_stage import OPEN
from acceptor.clients.channel_state import ChannelState
from shard.core import ShardCore
from shard.queue.consumer_cy import Consumer
from shard.queue.dispatch import Ring
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Acceptor


def nobody_starves(node: Node) -> None:
    """Check at rest that no queue has a ready message for a consumer that may have it, neither by its shard nor by its
    acceptor.
    """
    for _, shard in node.running_shards():
        sleepers_have_no_credit(shard.core)
        nobody_is_forgotten(node, shard.core)
    for channel in node.channels():
        assert channel.stage is not OPEN or not (channel.shared_prefetch.hungry and has_room(channel))


def sleepers_have_no_credit(shard: ShardCore) -> None:
    """Check that sleeping consumers have no credit, and that no consumer has any while messages are ready, except those
    whose connection has as much in flight as it may have (docs/memory.md).
    """
    for queue in shard.state.queues.values():
        for consumer in served(queue.ring):
            if is_held_by_outlet(consumer):
                continue
            assert consumer in consumer.level.awake or consumer.credit() == 0
            if queue.contents.ready:
                assert consumer.credit() == 0
                assert consumer.group.hungry or not consumer.lacks_grant()


def is_held_by_outlet(consumer: Consumer) -> bool:
    """Whether a consumer sleeps because of the bytes in flight to its connection, or to all those of its user."""
    outlet = consumer.outlet
    if outlet is None or consumer not in outlet.sleepers:
        return False
    return outlet.lent - outlet.window >= outlet.nbytes or outlet.lent >= outlet.share.room()


def served(ring: Ring) -> list[Consumer]:
    """Return the consumers that get messages of a queue."""
    return [ring.active] if ring.single and ring.active else list(ring.consumers)


def nobody_is_forgotten(node: Node, shard: ShardCore) -> None:
    """Check that a consumer lacks a grant of its acceptor only if its channel's shared prefetch has no room, and that
    its acceptor has reported to a shard that is short what has left for sockets.
    """
    for queue in shard.state.queues.values():
        for consumer in served(queue.ring):
            receiver = node.followers.get(consumer.link.identity)
            if not isinstance(receiver, Acceptor):
                continue
            if consumer.outlet is not None and consumer.outlet.share.is_short():
                for other in receiver.core.delivery.consumers.values():
                    unread = not other.channel.connection.writable
                    assert unread or not other.written or other.shard != shard.state.index
            if queue.contents.ready and consumer.lacks_grant():
                shared = receiver.core.state.sharing[consumer.group.id]
                room = shared.limit - shared.channel.unacked.consumed - shared.uncommitted
                assert room <= sum(shared.granted.values()), f"a consumer of {queue.name} could have {room}"


def has_room(channel: ChannelState) -> bool:
    """Whether a channel's shared prefetch has room."""
    shared = channel.shared_prefetch
    return shared.limit > channel.unacked.consumed + shared.uncommitted


def shared_prefetch_holds(node: Node) -> None:
    """Check the shared prefetch of channels that consume from several shards: it holds at any time except while it
    changes.
    """
    for channel in node.channels():
        shared = channel.shared_prefetch
        if shared.granting and channel.running is None:
            assert sum(shared.granted.values()) <= max(shared.limit - channel.unacked.consumed, 0)
