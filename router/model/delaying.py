"""Delayed message exchanges, as RabbitMQ's plugin has them: a message with the header `x-delay` is routed that many
milliseconds later.

Until then it waits in the delay queue of the exchange, an ordinary queue to flow control, limits and the store, which
the router makes and deletes with the exchange. Only its shard takes messages out of it, when they are due: they are
routed by the exchange again, with the delay negated, so that nothing delays them a second time.

A delay that is no number, or not above 0, is none. Numbers in text count, as with the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.amqp.errors import amqp_error
from router.model.index import ExaminingIndex, Headers, Index, LookupWalk, Properties, Walk, headers_of
from router.model.records import Binding, Destination, Queue

DELAY_HEADER = "x-delay"
DELAY_MAX = 315_360_000_000
"""The longest delay, ten years in milliseconds; a longer one counts as this."""

DELAY_QUEUE = "delay"
"""The type of delay queues, which no declaration may ask for."""
_PREFIX = "amq.delayed."


def delay_queue_of(exchange: str) -> str:
    """Return the name of the delay queue of an exchange."""
    return _PREFIX + exchange


def is_delay_queue(name: str) -> bool:
    """Whether a queue of that name is a delay queue; the name is reserved."""
    return name.startswith(_PREFIX)


def delayed_by(queue: str) -> str:
    """Return the exchange of a delay queue."""
    return queue.removeprefix(_PREFIX)


def check_no_delay_queue(queue: Queue) -> None:
    """403 for a delay queue, where anything else is meant."""
    if is_delay_queue(queue.name):
        raise amqp_error(403, f"{queue} is the delay queue of exchange '{delayed_by(queue.name)}'")


def delay_of(headers: Headers) -> int:
    """Return the delay of a message in milliseconds; 0 if it has none."""
    value = headers.get(DELAY_HEADER)
    if isinstance(value, str):
        value = int(value) if re.fullmatch("[+-]?[0-9]{1,20}", value) else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return 0
    return int(min(value, DELAY_MAX))


class DelayedIndex:
    """The index of a delayed message exchange: messages with a delay go to its delay queue, others as `routing` has it,
    the index of their bindings. `examines` is that index if it looks at properties.
    """

    def __init__(self, exchange: str, routing: Index, examines: ExaminingIndex | None) -> None:
        self.routing = routing
        self._examines = examines
        self._waiting: Collection[Destination] = (("queue", delay_queue_of(exchange)),)
        self.reads = ("headers",) if examines is None else ("headers", *examines.reads)

    def add(self, binding: Binding) -> None:
        self.routing.add(binding)

    def remove(self, binding: Binding) -> None:
        self.routing.remove(binding)

    def walk(self, routing_key: str, properties: Properties) -> Walk:
        if delay_of(headers_of(properties)):
            return LookupWalk(self._waiting)
        return self.routing.walk(routing_key, properties)

    def examining(self, properties: Properties) -> int:
        """Return the places that `traits` visits."""
        return 1 if self._examines is None else 1 + self._examines.examining(properties)

    def traits(self, properties: Properties) -> Collection[object]:
        """Return what a message's route depends on: whether it is delayed; if not, what the routing index looks at."""
        if delay_of(headers_of(properties)):
            return (DELAY_HEADER,)
        return () if self._examines is None else self._examines.traits(properties)
