"""A consumer as its acceptor knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.consumer_arguments import Lease
from penstock import bus
from penstock.amqp.encode_cy import DELIVER
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.channel_state import ChannelState


class Consumer:
    """One consumer of a channel. `id` names it on the bus: its lowest octet is the shard.

    `written` counts octets that left for the socket and that the shard was not told of yet. `age` is what the shard
    answered when it was attached, 0 before: one that has it is attached to the shard's next life. `elected` once it is
    the single active consumer of its queue. `lease` is what it leaves its deliveries to, if not to the queue.
    """

    __slots__ = (
        "age", "channel", "elected", "exclusive", "id", "lease", "no_ack", "prefetch", "prefix", "priority",
        "queue", "tag", "written",
    )  # fmt: skip

    def __init__(
        self, id: int, channel: ChannelState, queue: Queue, tag: str, no_ack: bool, exclusive: bool, prefetch: int,
        priority: int, lease: Lease | None = None,
    ) -> None:  # fmt: skip
        octets = tag.encode("utf-8", "surrogateescape")
        self.id = id
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.lease = lease
        self.prefix = DELIVER + bytes([len(octets)]) + octets
        self.written = 0
        self.age = 0
        self.elected = False

    @property
    def shard(self) -> int:
        """The index that it goes by: of its queue's shard, or of none while that moves."""
        return self.id & 255

    def operation(self) -> list[Any]:
        """The CONSUME that attaches it; the request's number is filled in by who sends it."""
        channel = self.channel
        operation = [
            bus.CONSUME, 0, self.id, self.queue.queue_id, self.no_ack, self.exclusive, self.prefetch, channel.group,
            channel.shared_prefetch.told, channel.delivers and not channel.connection.deliveries_withheld,
            self.priority, self.age, self.elected, channel.connection.user, channel.shared_prefetch.octets,
        ]  # fmt: skip
        return operation if self.lease is None else [*operation, self.lease]
