"""Consumers as their acceptor knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.consumer_arguments import Lease
from penstock.amqp.encode_cy import DELIVER
from penstock.batch.consumer_ids import shard_of
from penstock.bus import to_shard
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState


class Consumer:
    """One consumer of a channel. `id` names it on the bus: its lowest byte is the shard.

    `written` counts bytes that left for the socket and were not yet reported to the shard. `age` is the shard's answer
    when the consumer was attached, 0 before: one with an age is re-attached to the shard's next incarnation. `elected`
    once it is the single active consumer of its queue. `lease` takes over its deliveries when it ends; without one they
    return to the queue.
    """

    __slots__ = (
        "age", "channel", "elected", "exclusive", "id", "lease", "no_ack", "prefetch", "prefix", "priority",
        "queue", "tag", "written",
    )  # fmt: skip

    def __init__(
        self, id: int, channel: ChannelState, queue: Queue, tag: str, no_ack: bool, exclusive: bool, prefetch: int,
        priority: int, lease: Lease | None = None,
    ) -> None:  # fmt: skip
        data = tag.encode("utf-8", "surrogateescape")
        self.id = id
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.lease = lease
        self.prefix = DELIVER + bytes([len(data)]) + data
        self.written = 0
        self.age = 0
        self.elected = False

    @property
    def shard(self) -> int:
        """The index in its id: of its queue's shard, or of none while the queue moves."""
        return shard_of(self.id)

    def request(self) -> to_shard.Consume:
        """Return the request that attaches it."""
        channel = self.channel
        return to_shard.Consume(
            self.id, self.queue.queue_id, self.no_ack, self.exclusive, self.prefetch, channel.group,
            channel.shared_prefetch.announced, channel.is_delivered_to(), self.priority, self.age, self.elected,
            channel.connection.user, channel.shared_prefetch.nbytes, self.lease,
        )  # fmt: skip
