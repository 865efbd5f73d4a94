"""Enqueues published messages, as many as each queue has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock import bus
from penstock.batch.batch_cy import SENT_AGAIN, Batch
from penstock.bus import to_acceptor, to_shard
from penstock.tracing.trace_context import TraceContext
from shard.contents.segment_cy import Origin
from shard.queue.admission import Refused, admit, take_all
from shard.queue.lease import first_held
from shard.queue.queue_state import QueueState
from shard.serving.serving import Serving
from shard.serving.traces import Traces
from shard.turns.link import Link
from shard.turns.replies import pass_on
from shard.turns.state import ShardState


class Intake:
    """The intake of one shard. `undecided` returns the lowest sequence number that each undecided transaction holds of
    a queue.
    """

    def __init__(
        self, state: ShardState, serving: Serving, traces: Traces, undecided: Callable[[QueueState], list[int]]
    ) -> None:
        self.state = state
        self.serving = serving
        self.traces = traces
        self.undecided = undecided

    def publish(
        self, link: Link, parts: Sequence[Any], turn: int, index: int, publish: to_shard.Publish, firm: bool = False,
        powerless: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Enqueue the messages of a publish, as many as each queue has room for.

        With `firm` every queue accepts all of them, except the `powerless` ones.
        """
        queues = self.state.queues
        ids, part, first, count, resent, age, trace = publish
        batch = bus.batch_at(parts, part)
        if resent:
            batch = batch.flagged(SENT_AGAIN)
        age *= 1000
        if bus.loan_of(batch.contents) is not None and any(queues[id].lingers for id in ids if id in queues):
            batch = bus.taken_home(batch)
        refuses = link.is_acceptor and not firm
        origin = Origin(link.source, turn, index) if refuses else None
        for id in ids:
            if isinstance(id, str):
                pass_on(self.state, id, batch, first, count)
                continue
            if not refuses:
                self.excuse(id, count, batch.whole(first, count))
            beyond = self.enqueue(id, batch, first, count, firm and id not in powerless, age, origin)
            if trace is not None and not beyond and id in queues:
                self.traces.enqueued(TraceContext(*trace), link, turn, queues[id], batch, first)
            for refused, size in beyond:
                if refuses:
                    link.verdicts.append(to_acceptor.Rejected(turn, index, id, refused, size))

    def enqueue(
        self, id: int, batch: Batch, first: int, count: int, firm: bool = False, age: int = 0,
        origin: Origin | None = None,
    ) -> Refused:  # fmt: skip
        """Enqueue messages that were parked for `age` microseconds, and return those that the queue refused.

        A queue that does not exist refuses none.
        """
        queue = self.state.queues.get(id)
        if queue is None:
            return []
        self.state.touch(queue)
        now, deliver = self.state.now, self.serving.deliver
        if not queue.rejects:
            queue.enqueue(batch, first, count, now - age, origin)
            if age:
                queue.contents.offered()  # messages that expired while parked go to no consumer
            return []
        if queue.contents.expiring:
            deliver(queue)  # expired messages take up no room
        if not firm:
            return admit(queue, batch, first, count, now, deliver, self.oldest_unacked)
        take_all(queue, batch, first, count, now, deliver, self.oldest_unacked)
        return []

    def enqueue_internal(self, id: int, batch: Batch) -> None:
        """Enqueue messages made by the broker, whatever the marks of their queue."""
        self.excuse(id, len(batch), batch.whole(0, len(batch)))
        self.enqueue(id, batch, 0, len(batch))

    def excuse(self, id: int, count: int, nbytes: int) -> None:
        """Exempt messages that arrive whatever the marks of their queue from its overshoot statistics."""
        queue = self.state.queues.get(id)
        if queue is not None and queue.has_marks:
            queue.saturation.excuse(count, nbytes)

    def excuse_events(self, link: Link, excused: to_shard.Excused) -> None:
        """Exempt events published by an acceptor from the overshoot statistics of their queues."""
        for id in excused.queues:
            self.excuse(id, excused.messages, excused.nbytes)

    def oldest_unacked(self, queue: QueueState) -> int | None:
        """The lowest unacked sequence number of a queue, leases and undecided transactions included; None if there is
        none.
        """
        links = self.state.links.values()
        holders = (c for link in links for c in link.consumers.values() if c.queue is queue.contents)
        in_hand = [holder.outstanding.first() for holder in holders if holder.outstanding]
        undecided = self.undecided(queue) if queue.pending.undecided else []
        return min(in_hand + first_held(queue.leases) + undecided, default=None)
