"""Requests of acceptors of class queue: purge, delete and describe queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock import bus
from shard.contents.errors import StoreError
from shard.queue.stalls import Stalls
from shard.serving.deleting import Deletions
from shard.serving.homing import Homings
from shard.serving.serving import Serving
from shard.turns.link import Link
from shard.turns.looking import Looking, looks_first
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
        self.operations: dict[int, Callable[..., None]] = {
            bus.PURGE: self.purge,
            bus.DELETE: self.delete,
            bus.STAT: self.stat,
        }

    @looks_first
    def purge(self, link: Link, request: int, queue_id: int) -> Looking:
        """Drop all ready messages; the reply has their number."""
        queue = self.state.queues.get(queue_id)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.purge, link, request, queue_id)):
            return
        self.serving.serve_now(queue)
        try:
            link.reply(request, queue.contents.purge())
        except StoreError as error:
            self.stalls.failed(queue, self.state.now, error)
            link.refuse(request, 406, f"{queue} cannot be read")

    @looks_first
    def delete(self, link: Link, request: int, queue_id: int, if_unused: bool, if_empty: bool) -> Looking:
        """Have the router delete a queue; the reply has the number of its ready messages."""
        queue = self.state.queues.get(queue_id)
        if queue is None:
            link.reply(request, 0)
            return
        yield
        if self.homings.defers(queue, link, partial(self.delete, link, request, queue_id, if_unused, if_empty)):
            return
        self.serving.serve_now(queue)
        if if_unused and queue.ring.consumers:
            link.refuse(request, 406, f"{queue} in use")
        elif if_empty and queue.contents.ready:
            link.refuse(request, 406, f"{queue} not empty")
        else:
            ready = queue.contents.ready
            self.deletions.ask(queue, lambda error: link.reply(request, ready, error))

    @looks_first
    def stat(self, link: Link, request: int, queue_id: int) -> Looking:
        """Reply with the numbers of ready messages and consumers."""
        queue = self.state.queues.get(queue_id)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.homings.defers(queue, link, partial(self.stat, link, request, queue_id)):
            return
        self.serving.serve_now(queue)
        queue.usage.last = self.state.now
        link.reply(request, [queue.contents.ready, len(queue.ring)])
