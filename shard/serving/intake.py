"""Takes messages in for the queues of a shard, each what it has room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock import bus
from penstock.batch.batch_cy import SENT_AGAIN, Batch
from shard.contents.segment_cy import Origin
from shard.queue.admission import Refused, admit, take_all
from shard.queue.lease import first_held
from shard.queue.queue_state import QueueState
from shard.serving.serving import Serving
from shard.turns.link import Link
from shard.turns.replies import pass_on
from shard.turns.state import ShardState


class Intake:
    """`undecided` says what transactions that are not decided hold of a queue: the lowest sequence number of each."""

    def __init__(self, state: ShardState, serving: Serving, undecided: Callable[[QueueState], list[int]]) -> None:
        self.state = state
        self.serving = serving
        self.undecided = undecided

    def publish(
        self, link: Link, parts: Sequence[Any], turn: int, index: int, operation: list[Any], firm: bool = False,
        powerless: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Take in messages, each queue what it has room for; where `firm` all of them, but for `powerless` queues."""
        queues = self.state.queues
        _, ids, part, first, count, *more = operation
        batch = bus.batch_at(parts, part)
        if more and more[0]:
            batch = batch.flagged(SENT_AGAIN)
        age = more[1] * 1000 if len(more) > 1 else 0
        if bus.loan_of(batch.contents) is not None and any(queues[id].lingers for id in ids if id in queues):
            batch = bus.taken_home(batch)
        origin = Origin(link.source, turn, index) if link.is_acceptor and not firm else None
        for id in ids:
            if isinstance(id, str):
                pass_on(self.state, id, batch, first, count)
                continue
            if firm or not link.is_acceptor:
                self.excuse(id, count, batch.whole(first, count))
            for refused, size in self.enqueue(id, batch, first, count, firm and id not in powerless, age, origin):
                if link.is_acceptor and not firm:
                    link.verdicts.append([bus.REJECTED, turn, index, id, refused, size])

    def enqueue(
        self, id: int, batch: Batch, first: int, count: int, firm: bool = False, age: int = 0,
        origin: Origin | None = None,
    ) -> Refused:  # fmt: skip
        """Take messages in for a queue, if there is one, that were parked for so many microseconds; what it refused."""
        queue = self.state.queues.get(id)
        if queue is None:
            return []
        self.state.touch(queue)
        now, deliver = self.state.now, self.serving.deliver
        if not queue.rejects:
            queue.enqueue(batch, first, count, now - age, origin)
            if age:
                queue.contents.offered()  # what has expired meanwhile is for no consumer
            return []
        if queue.contents.expiring:
            deliver(queue)  # what has expired is in nobody's way
        if not firm:
            return admit(queue, batch, first, count, now, deliver, self.oldest_unacked)
        take_all(queue, batch, first, count, now, deliver, self.oldest_unacked)
        return []

    def come_unasked(self, id: int, batch: Batch) -> None:
        """Messages that are made in the broker come whatever the marks of their queue."""
        self.excuse(id, len(batch), batch.whole(0, len(batch)))
        self.enqueue(id, batch, 0, len(batch))

    def excuse(self, id: int, count: int, octets: int) -> None:
        """These come whatever the marks of the queue: they are no overshoot."""
        queue = self.state.queues.get(id)
        if queue is not None and queue.has_marks:
            queue.saturation.excuse(count, octets)

    def excuse_events(self, link: Link, ids: Sequence[int], count: int, octets: int) -> None:
        """Events that an acceptor publishes are no overshoot of their queues."""
        for id in ids:
            self.excuse(id, count, octets)

    def oldest_unacked(self, queue: QueueState) -> int | None:
        """The lowest sequence number that anybody has in hand; None if nobody has any."""
        links = self.state.links.values()
        holders = (c for link in links for c in link.consumers.values() if c.queue is queue.contents)
        in_hand = [holder.outstanding.first() for holder in holders if holder.outstanding]
        undecided = self.undecided(queue) if queue.undecided else []
        return min(in_hand + first_held(queue.leases) + undecided, default=None)
