"""The logic of a relay (RabbitMQ: shovel) between its source and its target: everything but sockets and clocks.

    source ──delivered──▶ waiting ──due──▶ published ──confirmed──▶ acked
                 │           ▲                  │
                 ▼           └──nacked, target lost
              left there

A message is acked at the source once the target has confirmed it, so nothing is lost whichever end dies, and a message
may arrive twice. The source's prefetch bounds what is in the relay. What the relay leaves at the source stays unacked,
and thereby in its place in the queue, until the relay ends; one that follows its queue publishes unroutable messages
again later. When the source is lost all of its unacked messages are its own again: those that wait are dropped here,
and confirms of published ones ack nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final

from ops.relay.delivery import Delivery, Router, Way
from ops.relay.token_bucket import TokenBucket
from penstock.client.core import ROUTELESS
from penstock.client.unconfirmed import Destination

RETRY_SECONDS: Final = 1.0
"""The pause after a nack, as of a full queue that rejects."""
ROUTE_SECONDS: Final = 10.0
"""The pause before a relay that follows publishes messages again for which the target had no route."""


class Ending(Enum):
    """Why a relay has ended."""

    DONE = "done"
    SEARCH_BOUND = "search bound"
    STOPPED = "stopped"
    FAILED = "failed"


class Relay:
    """State of a relay. Times (`now`) are seconds of the shell's clock."""

    def __init__(
        self,
        router: Router,
        *,
        prefetch: int,
        now: float,
        count: int | None = None,
        rate: float | None = None,
        follow: bool = False,
    ) -> None:
        """`count`: how many messages to relay at most; `rate`: how many a second. The relay ends after as many messages
        as were ready when the source came up, or when none is, unless it is to `follow` the queue.
        """
        self.acks: list[int] = []
        """Delivery tags to ack at the source."""
        self.questions: list[str] = []
        """Names of exchanges to ask the target for."""
        self.confirmed = 0
        self.left_there = 0
        """Messages that the source has delivered and the relay leaves there."""
        self.unroutable = 0
        """Those of them for which the target has no route."""
        self.ending: Ending | None = None
        self.failure = ""
        self._router = router
        self._prefetch = prefetch
        self._count = count
        self.follow = follow
        self._bucket = TokenBucket(rate, now)
        self._waiting: deque[Delivery] = deque()
        self._published: dict[int, Delivery] = {}
        self._confirm_tag = 0
        self._remaining = 0
        self._exchanges: dict[str, bool] = {}
        self._source_up = self._target_up = False
        self.stopping = False
        self._holding: dict[str, str] = {}
        self._retry_at = self._route_at = now
        self._routeless: list[Delivery] = []

    # Events of the source.

    def source_up(self, ready: int) -> None:
        """Handle a new consumer; `ready` messages are in its queue."""
        self._source_up = True
        self._remaining = max(ready, self._remaining)
        if self._target_up:
            self._end_if_over()

    def source_down(self) -> None:
        """Handle the loss of the source's channel: its unacked messages are in the queue again."""
        self._source_up = False
        on_the_way = [*self._waiting, *(each for each in self._published.values() if each.tag)]
        self._remaining += len(on_the_way) + self.left_there
        for delivery in on_the_way:
            delivery.tag = 0
        self._waiting.clear()
        self.acks.clear()
        self._routeless.clear()
        self.left_there = self.unroutable = 0

    def delivered(self, delivery: Delivery) -> None:
        """Handle a delivery. One that the relay has no use for any more stays unacked."""
        if self.stopping or self._has_enough:
            return
        self._remaining -= 1
        delivery.way = self._router(delivery)
        if delivery.way is None:
            self.left_there += 1
        else:
            self._waiting.append(delivery)
        self._end_if_over()

    def counted(self, ready: int) -> None:
        """Handle the number of ready messages of the source's queue, asked for while the relay was idle."""
        if self.idle and not ready and not self.follow:
            self._end(Ending.DONE)

    # Events of the target.

    def target_up(self) -> None:
        """Handle a new channel of the target, in confirm mode."""
        self._target_up = True
        self._confirm_tag = 0
        if self._source_up:
            self._end_if_over()

    def target_down(self) -> None:
        """Handle the loss of the target's channel: what is not confirmed is published again, in order."""
        self._target_up = False
        self._holding.clear()
        self._exchanges.clear()
        self.questions.clear()
        self._wait_again(list(self._published.values()))
        self._published.clear()
        self._end_if_over()

    def hold(self, cause: str, reason: str) -> None:
        """Handle a command of the target to publish nothing."""
        self._holding[cause] = reason

    def release(self, cause: str) -> None:
        """Handle the end of such a command."""
        self._holding.pop(cause, None)

    def exchange_found(self, name: str, exists: bool) -> None:
        """Handle the answer to one of the `questions`."""
        self._exchanges[name] = exists

    def returned(self, returned: Delivery, code: int) -> None:
        """Handle basic.return; the message's ack or nack follows. Equal messages may take each other's place."""
        if code not in ROUTELESS:
            return
        for delivery in self._published.values():
            if not delivery.unroutable and _is_same(delivery, returned):
                delivery.unroutable = True
                return

    def settled(self, tag: int, multiple: bool, taken: bool, now: float) -> None:
        """Handle basic.ack (`taken`) or basic.nack."""
        tags = [each for each in self._published if each <= tag] if multiple else [tag]
        settled = [self._published.pop(each) for each in tags if each in self._published]
        for delivery in settled:
            if delivery.tag and taken and not delivery.unroutable:
                self.acks.append(delivery.tag)
                self.confirmed += 1
        nacked = [delivery for delivery in settled if not taken and not delivery.unroutable]
        if nacked:
            self._retry_at = now + RETRY_SECONDS
        self._wait_again(nacked + self._rerouted(settled, now))
        self._end_if_over()

    # The shell's turn.

    def due(self, now: float) -> Iterator[tuple[Delivery, Destination]]:
        """Yield the messages to publish now, in order, each with its destination."""
        if self._routeless and now >= self._route_at and self._may_publish:
            self._find_routes()
        while self._waiting and self._may_publish and now >= self._retry_at:
            destination = self._destination(self._waiting[0])
            if destination is None or not self._bucket.spend(now):
                return
            delivery = self._waiting.popleft()
            self._confirm_tag += 1
            self._published[self._confirm_tag] = delivery
            yield delivery, destination

    def next_at(self, now: float) -> float | None:
        """Return when to look for due messages without any event; None if only an event can make some due."""
        if not self._may_publish:
            return None
        times = [max(self._retry_at, self._bucket.next_at())] if self._waiting else []
        times += [self._route_at] if self._routeless else []
        return min((at for at in times if at > now), default=None)

    def stop(self) -> None:
        """Publish nothing more, and end once all published messages are settled."""
        self.stopping = True
        self._waiting.clear()
        self._end_if_over()

    def interrupt(self) -> None:
        """Stop; at the second interrupt, give up."""
        if self.stopping:
            self.give_up()
        self.stop()

    def fail(self, text: str) -> None:
        """Stop, because of an error."""
        self.failure = self.failure or text
        self.stop()

    def give_up(self) -> None:
        """End a relay that stops, without the confirms that it still waits for."""
        self._end(Ending.FAILED if self.failure else Ending.STOPPED)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._waiting and not self._published

    @property
    def unconfirmed(self) -> int:
        """The number of messages that are published and not confirmed."""
        return len(self._published)

    @property
    def held_by(self) -> str:
        """The target's reason for which nothing is published; empty if there is none."""
        return "; ".join(self._holding.values())

    @property
    def up(self) -> bool:
        """Whether both sides are connected."""
        return self._source_up and self._target_up

    def is_held(self, now: float) -> bool:
        """Whether the target keeps the relay from publishing."""
        kept = len(self._published) + len(self._routeless)
        return bool(self._holding) or now < self._retry_at or kept >= self._prefetch

    def waits_for(self, now: float) -> str:
        """Return what the target lacks or withholds, in words; empty if nothing."""
        reasons = [*self._holding.values()]
        if now < self._retry_at:
            reasons.append("the target rejects messages")
        if not reasons and len(self._published) >= self._prefetch:
            reasons.append("the target confirms nothing")
        if self.unroutable:
            reasons.append(f"the target has no route for {self.unroutable} of the messages")
        return "; ".join(reasons)

    @property
    def remaining(self) -> int:
        """How many messages the relay still has to do with, as far as is known."""
        most = self._remaining + len(self._waiting) + len(self._published)
        return most if self._count is None else min(most, self._count - self.confirmed)

    @property
    def _may_publish(self) -> bool:
        """The source's prefetch bounds what is published, unless the source was lost and delivers all of it again."""
        ready = self._target_up and not self._holding and not self.stopping
        return ready and len(self._published) < self._prefetch

    @property
    def _has_enough(self) -> bool:
        on_the_way = self.confirmed + len(self._waiting) + len(self._published)
        if self._count is not None and on_the_way >= self._count:
            return True
        return self._remaining <= 0 and not self.follow

    def _destination(self, delivery: Delivery) -> Destination | None:
        """Return where to publish a message; None while it is not known whether its exchange exists."""
        way = delivery.way
        assert way
        if way.otherwise is None:
            return way.destination
        exists = self._exchanges.get(way.destination.exchange)
        if exists is None and way.destination.exchange not in self.questions:
            self.questions.append(way.destination.exchange)
        if exists is None:
            return None
        return way.destination if exists else way.otherwise

    def _rerouted(self, settled: list[Delivery], now: float) -> list[Delivery]:
        """Return those of the settled messages that were returned and have another way; others stay at the source."""
        rerouted = []
        for delivery in settled:
            if not delivery.unroutable or not delivery.tag:
                continue
            if delivery.way and delivery.way.otherwise:
                delivery.way, delivery.unroutable = Way(delivery.way.otherwise), False
                rerouted.append(delivery)
                continue
            self.left_there += 1
            self.unroutable += 1
            if self.follow:
                self._route_at = self._route_at if self._routeless else now + ROUTE_SECONDS
                self._routeless.append(delivery)
        return rerouted

    def _find_routes(self) -> None:
        """Have unroutable messages published again."""
        self.left_there -= len(self._routeless)
        self.unroutable -= len(self._routeless)
        for delivery in self._routeless:
            delivery.unroutable = False
        self._wait_again(self._routeless)
        self._routeless = []

    def _wait_again(self, deliveries: list[Delivery]) -> None:
        """Have messages wait once more, in the order of the source, unless they are the source's again."""
        if not self.stopping:
            again = [delivery for delivery in deliveries if delivery.tag]
            self._waiting = deque(sorted([*again, *self._waiting], key=lambda delivery: delivery.tag))

    def _end_if_over(self) -> None:
        if not self.idle:
            return
        if self.stopping:
            self._end(Ending.FAILED if self.failure else Ending.STOPPED)
        elif self._has_enough:
            self._end(Ending.DONE)
        elif self.left_there - len(self._routeless) >= self._prefetch:
            self._end(Ending.SEARCH_BOUND)

    def _end(self, ending: Ending) -> None:
        self.ending = self.ending or ending


def _is_same(delivery: Delivery, returned: Delivery) -> bool:
    """Whether a published message is the one that the target has returned."""
    assert delivery.way
    places = (delivery.way.destination, delivery.way.otherwise)
    return (
        (returned.exchange, returned.routing_key) in places
        and delivery.properties == returned.properties
        and delivery.body == returned.body
    )
