"""The queues of a run: their arguments and the possible fates of their messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from router.model.placement import place

SHARDS = 2


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One durable queue.

    `dead_to` names the queue that its dead letters go to. `dies_unread`: messages go there without a reader's reject
    (expired, dropped); `unread`: it has no reader, so they do in order. `keeps` is the length of a ring that drops its
    oldest messages; with `by_key` it is the number of keys, which messages have in turn (`key_of`), and the queue keeps
    the last message of each. `repeats`: a message may come twice, because dead letters from another shard arrive at
    least once. `waited_for`: dead letters wait for room in it, so more may come than it has. `shared`: it has several
    readers; after a fault one may get messages that another had unacked, late and unmarked.
    """

    name: str
    shard: int
    arguments: dict[str, Any] = field(default_factory=dict)
    dead_to: str | None = None
    dies_unread: bool = False
    unread: bool = False
    keeps: int | None = None
    repeats: bool = False
    waited_for: bool = False
    by_priority: bool = False
    by_key: bool = False
    shared: bool = False

    def key_of(self, number: int) -> int:
        """Return the key of the message with a number, whichever client publishes it."""
        assert self.keeps is not None
        return number % self.keeps

    @property
    def falls_out(self) -> bool:
        """Whether messages leave the queue by themselves."""
        return self.dies_unread or self.keeps is not None


class Plan:
    """All queues of a run and their vhost."""

    def __init__(self, vhost: str, shards: int = SHARDS) -> None:
        self.vhost = vhost
        self.shards = shards
        self.queues: dict[str, QueuePlan] = {}
        self.bindings: list[tuple[str, str, str]] = []
        """(exchange, routing key, queue); all exchanges are direct."""

    def name_on(self, shard: int, stem: str) -> str:
        """Return a queue name with a stem that is placed on a shard."""
        names = (f"{stem}-{number}" for number in range(1000))
        return next(name for name in names if place(self.vhost, name, range(self.shards), {}) == shard)

    def add(self, stem: str, shard: int, arguments: dict[str, Any] | None = None, **rules: Any) -> QueuePlan:
        """Add a queue."""
        queue = QueuePlan(self.name_on(shard, stem), shard, arguments or {}, **rules)
        self.queues[queue.name] = queue
        return queue

    def add_dead(self, stem: str, shard: int, target: QueuePlan, **rules: Any) -> QueuePlan:
        """Add a queue whose dead letters go to `target` through the default exchange."""
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target.name}
        return self.add(stem, shard, {**dead, **rules.pop("arguments", {})}, dead_to=target.name, **rules)

    def bind(self, exchange: str, key: str, *queues: QueuePlan) -> None:
        """Bind queues to an exchange."""
        self.bindings += [(exchange, key, queue.name) for queue in queues]

    def exchanges(self) -> Iterator[str]:
        """Yield the exchanges with bindings."""
        yield from dict.fromkeys(exchange for exchange, _, _ in self.bindings)


MARKERS = "markers"
"""The name of an exchange and of its routing key, which together route to the markers of all shards."""


def marker(plan: Plan, shard: int) -> str:
    """Return the queue of a shard whose confirms show that everything before is stored. It has one message at most."""
    return plan.name_on(shard, "marker")


MARKER_ARGUMENTS = {"x-max-length": 1, "x-overflow": "drop-head"}
