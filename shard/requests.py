"""What acceptors ask of a shard of class queue: to purge, delete and describe its queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import bus
from penstock.node.logs import get_logger
from shard.environment import StoreError
from shard.link import Link
from shard.looking import Looking, looks_first
from shard.queues import QueueState

if TYPE_CHECKING:
    from shard.core import ShardCore

log = get_logger()


class Requests:
    """The operations of class queue on the queues of one shard, and how a queue comes to its end."""

    def __init__(self, core: ShardCore) -> None:
        self.core = core
        self.operations: dict[int, Callable[..., None]] = {
            bus.PURGE: self.purge,
            bus.DELETE: self.delete,
            bus.STAT: self.stat,
        }

    @looks_first
    def purge(self, link: Link, request: int, queue_id: int) -> Looking:
        queue = self.core.queues.get(queue_id)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.core.moving.waits(queue, link, partial(self.purge, link, request, queue_id)):
            return
        self.core.settle_now(queue)
        try:
            link.reply(request, queue.contents.purge())
        except StoreError as error:
            self.core.stalls.failed(queue, self.core.now, error)
            link.refuse(request, 406, f"{queue} cannot be read")

    @looks_first
    def delete(self, link: Link, request: int, queue_id: int, if_unused: bool, if_empty: bool) -> Looking:
        queue = self.core.queues.get(queue_id)
        if queue is None:
            link.reply(request, 0)
            return
        yield
        if self.core.moving.waits(queue, link, partial(self.delete, link, request, queue_id, if_unused, if_empty)):
            return
        self.core.settle_now(queue)
        if if_unused and queue.ring.consumers:
            link.refuse(request, 406, f"{queue} in use")
        elif if_empty and queue.contents.ready:
            link.refuse(request, 406, f"{queue} not empty")
        else:
            ready = queue.contents.ready
            self.ask_to_delete(queue, lambda error: link.reply(request, ready, error))

    @looks_first
    def stat(self, link: Link, request: int, queue_id: int) -> Looking:
        queue = self.core.queues.get(queue_id)
        if queue is None:
            link.refuse(request, 404, "no such queue")
            return
        yield
        if self.core.moving.waits(queue, link, partial(self.stat, link, request, queue_id)):
            return
        self.core.settle_now(queue)
        queue.used = self.core.now
        link.reply(request, [queue.contents.ready, len(queue.ring)])

    def ask_to_delete(self, queue: QueueState, done: Callable[[Any], None]) -> None:
        """The router decides what exists; until it has, nobody new may consume.

        All who ask meanwhile get its answer before consumers are told that the queue has gone: so it is with RabbitMQ,
        and clients drop a consumer when they see delete-ok. The change that the router publishes may come before its
        answer, but does not stand for it: only then acceptors can know that they have to take that change in.
        """
        queue.deleters.append(done)
        if len(queue.deleters) > 1:
            return
        queue.fenced = True

        def answered(result: Any, error: Any) -> None:
            deleters, queue.deleters = queue.deleters, []
            for done in deleters:
                done(error)
            if error is None:
                self.core.close_queue(queue.id)
            elif queue.id in self.core.queues:
                queue.fenced = False
                log.warning("queue not deleted", queue=queue.name, vhost=queue.vhost, error=error)
            self.core.consuming.tell_cancelled(queue)

        self.core.router_requests.append(("queue_delete", {"queue_id": queue.id}, answered))
