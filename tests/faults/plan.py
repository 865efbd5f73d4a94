"""The queues of a run: with what each is declared, and what may become of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from router.model.placement import place

SHARDS = 2


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One durable queue.

    `dead_to` names the queue to which its dead letters go; `dies_unread` says that messages get there without a
    reader's reject (expired, dropped), `unread` that it has no reader, so that they do in order. `keeps` is the length
    of a ring that drops its oldest messages; with `by_key` its messages have as many keys in turn (`key_of`), and the
    queue keeps the last of each. `repeats` is set if a message may come twice: dead letters from another shard come at
    least once. `waited_for` says that dead letters wait for room in it: more may come than it has. `shared`: it has
    several readers; after a fault one may get messages that another had unacked, late and unmarked.
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
        """Return which of its keys the message with that number has, whichever client publishes it."""
        assert self.keeps is not None
        return number % self.keeps

    @property
    def falls_out(self) -> bool:
        """Whether messages leave it by themselves."""
        return self.dies_unread or self.keeps is not None


class Plan:
    """All queues of a run, and the vhost they are in."""

    def __init__(self, vhost: str, shards: int = SHARDS) -> None:
        self.vhost = vhost
        self.shards = shards
        self.queues: dict[str, QueuePlan] = {}
        self.bindings: list[tuple[str, str, str]] = []
        """(exchange, routing key, queue); the exchanges are direct ones."""

    def name_on(self, shard: int, stem: str) -> str:
        """Return a queue name with this stem that is placed on that shard."""
        names = (f"{stem}-{number}" for number in range(1000))
        return next(name for name in names if place(self.vhost, name, range(self.shards), {}) == shard)

    def add(self, stem: str, shard: int, arguments: dict[str, Any] | None = None, **rules: Any) -> QueuePlan:
        """Add a queue."""
        queue = QueuePlan(self.name_on(shard, stem), shard, arguments or {}, **rules)
        self.queues[queue.name] = queue
        return queue

    def add_dead(self, stem: str, shard: int, target: QueuePlan, **rules: Any) -> QueuePlan:
        """Add a queue whose dead letters go to `target` by the default exchange."""
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target.name}
        return self.add(stem, shard, {**dead, **rules.pop("arguments", {})}, dead_to=target.name, **rules)

    def bind(self, exchange: str, key: str, *queues: QueuePlan) -> None:
        """Bind queues to an exchange."""
        self.bindings += [(exchange, key, queue.name) for queue in queues]

    def exchanges(self) -> Iterator[str]:
        """Yield the exchanges with bindings."""
        yield from dict.fromkeys(exchange for exchange, _, _ in self.bindings)


MARKERS = "markers"
"""An exchange, and its routing key, that lead to the markers of all shards."""


def marker(plan: Plan, shard: int) -> str:
    """Return the queue of a shard whose confirms show that all before is kept. It holds one message at most."""
    return plan.name_on(shard, "marker")


MARKER_ARGUMENTS = {"x-max-length": 1, "x-overflow": "drop-head"}
