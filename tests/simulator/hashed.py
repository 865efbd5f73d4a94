"""Publishes to the simulator's consistent hash exchange, and the queue to which each must go."""

from __future__ import annotations

from collections.abc import Iterable

from router.model.records import Binding
from tests.router.naive_choice import naive_choice
from tests.simulator.plan import HASH


def weight(queue: str) -> str:
    """Return the weight of a queue's binding, from 1 to 3."""
    return str(1 + len(queue) % 2 + ord(queue[-1]) % 2)


def key_of(client: int, number: int) -> str:
    """Return the routing key of a client's publish: one of seven of its own."""
    return f"{client}.{number % 7}"


def chosen(queues: Iterable[str], key: str) -> tuple[str, ...]:
    """Return the one of the bound queues to which a key must go; none if none is bound."""
    bindings = [Binding("/", HASH, "queue", queue, weight(queue), {}) for queue in queues]
    return tuple(name for _, name in naive_choice(bindings, key))
