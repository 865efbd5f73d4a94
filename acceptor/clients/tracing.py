"""The traces of an acceptor: the sample of publishes with which they begin, and the spans of its own."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.amqp.properties import PROPERTIES_AT, decode_some
from penstock.tracing.spans import Spans
from penstock.tracing.trace_context import HEADER, TraceContext, new_span, new_trace, sampled_parent

if TYPE_CHECKING:
    from acceptor.clients.parked import ParkedRun
    from acceptor.gates.confirms import Span
    from acceptor.routing.route import Route
    from penstock.bus import to_acceptor

MOST_PER_SECOND = 100
"""Publishes of an acceptor that are traced, per second: each takes as long as a batch does."""
UNCONFIRMED = 256
"""Traced publishes that may wait for their confirms; beyond that the oldest is given up."""


class Sample:
    """A random sample of a stream of messages: each is in it with the same probability, `ratio`, but at most
    `MOST_PER_SECOND` are. `ahead` is the number of messages before the next one of the sample.
    """

    def __init__(self, ratio: float, clock: Callable[[], float]) -> None:
        self.ratio = ratio
        self.clock = clock
        self.ahead = self._gap()
        self._second = 0
        self._taken = 0

    def next_of(self, count: int) -> int | None:
        """Return which of the next messages, by index, is the first one in the sample, and pass it; None if none of
        `count` is, and pass these.
        """
        if self.ahead >= count or self._is_exhausted():
            self.ahead = max(self.ahead - count, 0)
            return None
        found, self.ahead = self.ahead, self._gap()
        return found

    def _gap(self) -> int:
        """Return how many messages to pass. It is distributed geometrically, so that no period of the stream hides a
        message.
        """
        if self.ratio >= 1:
            return 0
        return int(math.log(1 - secrets.SystemRandom().random()) / math.log1p(-self.ratio))

    def _is_exhausted(self) -> bool:
        second = int(self.clock())
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        return self._taken > MOST_PER_SECOND


class Tracing:
    """The traces of one acceptor, which traces nothing without a `sample`. `now` is its clock, in seconds; `clock` is
    the node's, in µs: that of turns counts milliseconds.
    """

    def __init__(self, index: int, ratio: float, now: Callable[[], float], clock: Callable[[], int]) -> None:
        self.spans = Spans(f"acceptor.{index}")
        self.sample = Sample(ratio, now) if ratio > 0 else None
        self.now = now
        self.clock = clock
        self.unconfirmed: deque[tuple[Span, TraceContext, int]] = deque(maxlen=UNCONFIRMED)

    def begin(self, run: ParkedRun, route: Route, whose: Mapping[str, Any]) -> TraceContext:
        """Record the span of a publish, the first one of a run, that goes to shards now. Return the place below it.

        It begins when the publish was parked, if it was.
        """
        now = self.clock()
        parked = self.now() - run.since if run.since else 0.0
        place, span = _place(run), new_span()
        self.spans.put(
            place, span, "publish", now - int(parked * 1e6), now, **whose, exchange=route.exchange,
            routing_key=route.key, held=parked > 0,
        )  # fmt: skip
        return place.below(span)

    def await_confirm(self, waiting: Span, place: TraceContext) -> None:
        """Record how long the confirm of a publish takes."""
        self.unconfirmed.append((waiting, place, self.clock()))

    def follow_confirms(self) -> None:
        """Record the confirms that were sent in this turn."""
        for _ in range(len(self.unconfirmed)):
            waiting, place, since = self.unconfirmed.popleft()
            if waiting.done:
                outcome = "ack" if waiting.rejected is None else "nack"
                self.spans.put(place, new_span(), "confirm", since, self.clock(), outcome=outcome)
            else:
                self.unconfirmed.append((waiting, place, since))

    def delivered(self, traced: to_acceptor.Traced, consumer_tag: str, whose: Mapping[str, Any]) -> None:
        """Record the span of a delivery, which has been written to the connection's output."""
        place = TraceContext(*traced.trace)
        self.spans.put(
            place, new_span(), "deliver", traced.moment, self.clock(), **whose, consumer_tag=consumer_tag
        )  # fmt: skip


def _place(run: ParkedRun) -> TraceContext:
    """Return the place below the span that the producer has sent, if that is sampled, or in a new trace."""
    _, header, _ = run.batch.record(run.first)
    headers: Any = decode_some(header[PROPERTIES_AT:], ("headers",)).get("headers")
    parent = sampled_parent(headers.get(HEADER)) if isinstance(headers, dict) else None
    return new_trace() if parent is None else parent
