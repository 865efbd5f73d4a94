"""Requests of acceptors of class queue: purge, delete and describe queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.bus import to_shard
from penstock.bus.operations_cy import Operation
from shard.contents.errors import StoreError
from shard.queue.stalls import Stalls
from shard.serving.deleting import Deletions
from shard.serving.homing import Homings
from shard.serving.serving import Serving
from shard.turns.checking import Checking, checks_first
from shard.turns.link import Link
from shard.turns.state import ShardState


class Requests:
    """The operations of class queue on the queues of one shard."""

    def __init__(
        self, state: ShardState, serving: Serving, stalls: Stalls, homings: Homings, deletions: Deletions
    ) -> None:
        self.state = state
        self.serving = serving
        self.stalls = stalls
        self.homings = homings
        self.deletions = deletions
        self.operations: dict[type[Operation], Callable[[Link, Any], None]] = {
            to_shard.Purge: self.purge,
            to_shard.Delete: self.delete,
            to_shard.Stat: self.stat,
        }

    @checks_first
    def purge(self, link: Link, purge: to_shard.Purge) -> Checking:
        """Drop all ready messages; the reply has their number."""
        queue = self.state.queues.get(purge.queue)
        if queue is None:
            link.refuse(purge.request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.purge, link, purge)):
            return
        self.serving.serve_now(queue)
        try:
            link.reply(purge.request, queue.contents.purge())
        except StoreError as error:
            self.stalls.failed(queue, self.state.now, error)
            link.refuse(purge.request, 406, f"{queue} cannot be read")

    @checks_first
    def delete(self, link: Link, delete: to_shard.Delete) -> Checking:
        """Have the router delete a queue; the reply has the number of its ready messages."""
        queue = self.state.queues.get(delete.queue)
        if queue is None:
            link.reply(delete.request, 0)
            return
        yield
        if self.homings.defers(queue, link, partial(self.delete, link, delete)):
            return
        self.serving.serve_now(queue)
        if delete.if_unused and queue.ring.consumers:
            link.refuse(delete.request, 406, f"{queue} in use")
        elif delete.if_empty and queue.contents.ready:
            link.refuse(delete.request, 406, f"{queue} not empty")
        else:
            ready = queue.contents.ready
            self.deletions.ask(queue, lambda error: link.reply(delete.request, ready, error))

    @checks_first
    def stat(self, link: Link, stat: to_shard.Stat) -> Checking:
        """Reply with the numbers of ready messages and consumers."""
        queue = self.state.queues.get(stat.queue)
        if queue is None:
            link.refuse(stat.request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.stat, link, stat)):
            return
        self.serving.serve_now(queue)
        queue.usage.last = self.state.now
        link.reply(stat.request, [queue.contents.ready, len(queue.ring)])
