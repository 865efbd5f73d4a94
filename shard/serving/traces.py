"""Follows traced messages through the queues of a shard, and records a span for each thing that happens to them.

Theory of operation. Queues know ranges of messages, and nothing of traces. A traced message is known here by its
sequence number, and looked up at the end of each turn: one that is not ready any more has been delivered, and one that
its consumer does not have any more has been settled. Messages leave a line of a queue (that of a priority, or the only
one) in order, so only the first one of each line is looked up; behind it one that was requeued may be seen late.

    enqueued ──▶ ready ──▶ in hand ──▶ settled
                   ▲          │
                   └──────────┘ requeued

Times are those of turns. What becomes of messages whose queue is deleted or moves is not recorded.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from penstock.batch.batch_cy import PERSISTENT, Batch
from penstock.bus import to_acceptor
from penstock.tracing.spans import Spans
from penstock.tracing.trace_context import TraceContext, new_span
from shard.queue.copying import LINE_BITS

if TYPE_CHECKING:
    from shard.queue.consumer_cy import Consumer
    from shard.queue.queue_state import QueueState
    from shard.turns.link import Link
    from shard.turns.state import ShardState

FOLLOWED = 256
"""Messages that are followed at a time; further ones are not traced."""


class Followed:
    """A traced message in a queue: the place of its span there, the id of that span, and when it became ready, or was
    delivered last, in µs of the node's clock.
    """

    __slots__ = ("place", "queue", "sequence", "since", "span")

    def __init__(self, place: TraceContext, queue: QueueState, sequence: int, since: int) -> None:
        self.place = place
        self.queue = queue
        self.sequence = sequence
        self.since = since
        self.span = new_span()

    @property
    def inside(self) -> TraceContext:
        """The place of what happens in the queue."""
        return self.place.below(self.span)


class Unsafe(NamedTuple):
    """A traced message that is not in the store yet: its place in the queue, and the turn of a link that brought it at
    a moment.
    """

    place: TraceContext
    link: Link
    turn: int
    since: int


class Traces:
    """The traced messages of one shard."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.spans = Spans(f"shard.{state.index}")
        self._ready: dict[tuple[int, int], deque[Followed]] = {}
        self._in_hand: list[tuple[Followed, Consumer]] = []
        self._unsafe: list[Unsafe] = []

    def is_following(self) -> bool:
        """Whether there are messages to look up."""
        return bool(self._ready or self._in_hand or self._unsafe)

    def enqueued(self, place: TraceContext, link: Link, turn: int, queue: QueueState, batch: Batch, row: int) -> None:
        """A traced message, brought by a turn of a link, has been enqueued. Delayed messages, and those of last-value
        queues, are not followed: their place is not that of their arrival.
        """
        contents = queue.contents
        if self._is_full() or queue.last_values is not None or queue.delays is not None:
            return
        message = Followed(place, queue, contents.newest(batch, row), self.state.now)
        self._line(message).append(message)
        if contents.durable and batch.all_flags(row, 1) & PERSISTENT:
            self._unsafe.append(Unsafe(message.inside, link, turn, message.since))

    def follow(self) -> None:
        """Record the fate of the messages in this turn."""
        self._record_stored()
        self._record_settled()
        self._record_delivered()

    def _is_full(self) -> bool:
        followed = sum(map(len, self._ready.values())) + len(self._in_hand)
        return max(followed, len(self._unsafe)) >= FOLLOWED

    def _line(self, message: Followed) -> deque[Followed]:
        return self._ready.setdefault((message.queue.id, message.sequence >> LINE_BITS), deque())

    def _is_here(self, message: Followed) -> bool:
        return self.state.queues.get(message.queue.id) is message.queue

    def _record_stored(self) -> None:
        unsafe, self._unsafe = self._unsafe, []
        for message in unsafe:
            if message.link.safe >= message.turn:
                self.spans.put(message.place, new_span(), "store", message.since, self.state.now)
            elif message.link.identity in self.state.links:
                self._unsafe.append(message)

    def _record_settled(self) -> None:
        in_hand, self._in_hand = self._in_hand, []
        for message, consumer in in_hand:
            if consumer.outstanding.holds(message.sequence):
                self._in_hand.append((message, consumer))
            elif self._is_here(message):
                self._settled(message)

    def _settled(self, message: Followed) -> None:
        requeued = message.queue.contents.is_ready(message.sequence) or self._consumer_of(message) is not None
        outcome = "requeued" if requeued else "settled"
        self.spans.put(message.inside, new_span(), "process", message.since, self.state.now, outcome=outcome)
        if requeued:
            again = Followed(message.place, message.queue, message.sequence, self.state.now)
            self._line(again).appendleft(again)

    def _record_delivered(self) -> None:
        for at, line in list(self._ready.items()):
            while line and not (self._is_here(line[0]) and line[0].queue.contents.is_ready(line[0].sequence)):
                message = line.popleft()
                if self._is_here(message):
                    self._left(message)
            if not line:
                del self._ready[at]

    def _left(self, message: Followed) -> None:
        """Record that a message is not ready any more; without a consumer that has it, it has left the queue."""
        now, queue = self.state.now, message.queue
        consumer = self._consumer_of(message)
        self.spans.put(
            message.place, message.span, "queue", message.since, now, vhost=queue.vhost, queue=queue.name,
            outcome="left" if consumer is None else "delivered",
        )  # fmt: skip
        if consumer is not None:
            consumer.link.turn.add(to_acceptor.Traced(consumer.id, message.inside, now))
            message.since = now
            self._in_hand.append((message, consumer))

    def _consumer_of(self, message: Followed) -> Consumer | None:
        """The consumer, or the gets of a channel, that has a message unacked; None if none has it."""
        contents, sequence = message.queue.contents, message.sequence
        consumers = (consumer for link in self.state.links.values() for consumer in link.consumers.values())
        found = (each for each in consumers if each.queue is contents and each.outstanding.holds(sequence))
        return next(found, None)
