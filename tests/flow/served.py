"""Invariants of consumers once everything has come to rest: every message that can be delivered has been."""

from __future__ import annotations

from acceptor.amqp.channel import Channel
from shard.core import ShardCore
from tests.flow.books import BookedNode


def nobody_starves(node: BookedNode) -> None:
    """Check that no queue has a ready message for a consumer that may have it, neither by its shard nor by its
    acceptor.
    """
    for _, shard in node.running_shards():
        sleepers_have_no_credit(shard.core)
    for channel in node.channels():
        assert not (channel.shared_prefetch.hungry and has_room(channel))


def sleepers_have_no_credit(shard: ShardCore) -> None:
    """Check that sleeping consumers have no credit, and that no consumer has any while messages are ready."""
    for queue in shard.state.queues.values():
        ring = queue.ring
        for consumer in [ring.active] if ring.single and ring.active else ring.consumers:
            assert consumer in consumer.level.awake or consumer.credit() == 0
            if queue.contents.ready:
                assert consumer.credit() == 0
                assert consumer.group.hungry or not consumer.lacks_grant()


def has_room(channel: Channel) -> bool:
    """Whether a channel's shared prefetch has room."""
    shared = channel.shared_prefetch
    return shared.limit > channel.unacked.consumed + shared.uncommitted


def within_limits(node: BookedNode) -> None:
    """Check the shared prefetch of channels that consume from several shards: it holds at any time except while it
    changes.
    """
    for channel in node.channels():
        shared = channel.shared_prefetch
        if shared.granting and channel.running is None:
            assert sum(shared.granted.values()) <= max(shared.limit - channel.unacked.consumed, 0)
