"""Mandatory publishes that are returned because a queue with overflow `reject` has no room for them.

The reply code is that of the rung `reject` (`acceptor.publishing.refusal`); headers name the queue, its depth and its
limits: x-flow-queue, x-flow-count, x-flow-max-count, x-flow-size, x-flow-max-size. A message that several queues refuse
is returned once, for the first queue that reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import OPEN
from acceptor.publishing.refusal import give_back
from penstock.amqp.splice import number, text
from penstock.batch.batch_cy import Batch
from penstock.limits.watermarks import QueueLimits, depth_of_mark
from router.model.topology import Queue

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState


class Returns:
    """The mandatory messages of one dispatch, numbered from 0 on, whatever batch they are in later."""

    __slots__ = ("channel", "given", "queues")

    def __init__(self, channel: ChannelState, queues: frozenset[int]) -> None:
        self.channel = channel
        self.queues = queues
        self.given: set[int] = set()

    def refused(self, queue: int, batch: Batch, first: int, count: int, offset: int) -> None:
        """Return `count` rows of a batch that a queue refused, the messages from `offset` on of the dispatch."""
        if queue not in self.queues or self.channel.stage is not OPEN:
            return
        record = self.channel.acceptor.topology.queue_by_id(queue)
        fresh = [each for each in range(offset, offset + count) if each not in self.given]
        if record is None or not fresh:
            return
        self.given.update(fresh)
        gauges = self.channel.acceptor.gauges
        why, headers = reasons(record, gauges.depth_count(record.slot), gauges.depth_bytes(record.slot))
        for each in fresh:
            give_back(self.channel, why, headers, batch, first + each - offset, 1)


def reasons(queue: Queue, count: int, nbytes: int) -> tuple[str, dict[bytes, bytes]]:
    """Return the reason in words, and the headers that state it, as fields of a table."""
    limits = QueueLimits.from_wire(queue.limits)
    headers = {b"x-flow-queue": text(queue.name.encode("utf-8", "surrogateescape"))}
    limits_met = []
    if limits.max_count is not None:
        headers |= {b"x-flow-count": number(count), b"x-flow-max-count": number(limits.max_count)}
        limits_met.append(f"{depth_of_mark(count, limits.max_count)} messages")
    if limits.max_bytes is not None:
        headers |= {b"x-flow-size": number(nbytes), b"x-flow-max-size": number(limits.max_bytes)}
        limits_met.append(f"{depth_of_mark(nbytes, limits.max_bytes)} bytes")
    return f"queue '{queue.name}' in vhost '{queue.vhost}': {', '.join(limits_met)}", headers
