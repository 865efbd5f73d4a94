"""A consumer as its acceptor knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import bus
from penstock.amqp.encode_cy import DELIVER
from router.topology import Queue

if TYPE_CHECKING:
    from acceptor.channel import Channel


class Consumer:
    """One consumer of a channel. `id` names it on the bus: its lowest octet is the shard.

    `written` counts octets that left for the socket and that the shard was not told of yet. `age` is what the shard
    answered when it was attached, 0 before: one that has it is attached to the shard's next life. `elected` once it is
    the single active consumer of its queue.
    """

    __slots__ = (
        "age", "channel", "elected", "exclusive", "id", "no_ack", "prefetch", "prefix", "priority", "queue", "tag",
        "written",
    )  # fmt: skip

    def __init__(
        self, id: int, channel: Channel, queue: Queue, tag: str, no_ack: bool, exclusive: bool, prefetch: int,
        priority: int,
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
        self.prefix = DELIVER + bytes([len(octets)]) + octets
        self.written = 0
        self.age = 0
        self.elected = False

    def operation(self) -> list[Any]:
        """The CONSUME that attaches it; the request's number is filled in by who sends it."""
        channel = self.channel
        return [
            bus.CONSUME, 0, self.id, self.queue.queue_id, self.no_ack, self.exclusive, self.prefetch, channel.group,
            channel.shared_prefetch.told, channel.delivers, self.priority, self.age, self.elected,
        ]  # fmt: skip
