"""How a queue comes to its end: the router decides what exists; until it has, nobody new may consume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import bus
from penstock.node.logs import get_logger
from shard.queue.queue_state import QueueState
from shard.turns.state import ShardState

log = get_logger()


class Deletions:
    """Has queues of one shard deleted. `close` takes the id of one that is gone."""

    def __init__(self, state: ShardState, close: Callable[[int], None]) -> None:
        self.state = state
        self.close = close

    def ask(self, queue: QueueState, done: Callable[[Any], None]) -> None:
        """Ask the router; `done` gets its error, or None.

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
                self.close(queue.id)
            elif queue.id in self.state.queues:
                queue.fenced = False
                log.warning("queue not deleted", queue=queue.name, vhost=queue.vhost, error=error)
            tell_cancelled(queue)

        self.state.router_requests.append(("queue_delete", {"queue_id": queue.id}, answered))


def tell_cancelled(queue: QueueState) -> None:
    """The acceptors of those who consumed from a queue hear that it is gone."""
    bereft, queue.bereft = queue.bereft, []
    for consumer in bereft:
        consumer.link.turn.operations.append([bus.CANCELLED, consumer.id])
