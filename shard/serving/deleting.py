"""Deletion of queues. The router decides it; until its answer arrives, no new consumer is admitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.bus import to_acceptor
from penstock.node.logs import get_logger
from shard.queue.deletion import DeletionEvent, Stage
from shard.queue.queue_state import QueueState
from shard.turns.state import ShardState

log = get_logger()


class Deletions:
    """Deletes the queues of one shard through the router. `close` takes the id of a deleted queue."""

    def __init__(self, state: ShardState, close: Callable[[int], None]) -> None:
        self.state = state
        self.close = close

    def ask(self, queue: QueueState, done: Callable[[Any], None]) -> None:
        """Ask the router to delete a queue; `done` gets its error, or None.

        Every request made before the answer gets that answer, and only then are consumers told that the queue is gone.
        RabbitMQ does the same, and clients drop a consumer when they see delete-ok. The change published by the router
        may arrive before its answer but does not replace it: only after the answer can acceptors know that they must
        apply that change.
        """
        deletion = queue.deletion
        deletion.answers.append(done)
        if deletion.stage is Stage.ASKED:
            return
        deletion.happened(DeletionEvent.ASK)

        def answered(result: Any, error: Any) -> None:
            answers, deletion.answers = deletion.answers, []
            if error is not None and deletion.stage is Stage.ASKED:
                deletion.happened(DeletionEvent.REFUSE)
                log.warning("queue not deleted", queue=queue.name, vhost=queue.vhost, error=error)
            for done in answers:
                done(error)
            if error is None:
                self.close(queue.id)
            send_cancelled(queue)

        self.state.router_requests.append(("queue_delete", {"queue_id": queue.id}, answered))


def send_cancelled(queue: QueueState) -> None:
    """Send Cancelled to the acceptors of a deleted queue's consumers."""
    to_cancel, queue.deletion.to_cancel = queue.deletion.to_cancel, []
    for consumer in to_cancel:
        consumer.link.turn.add(to_acceptor.Cancelled(consumer.id))
