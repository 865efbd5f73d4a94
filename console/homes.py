"""The shard and the policy of each queue, from the topology that the router publishes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from router.model.record_kind import Change
from router.model.records import Queue


class Home(NamedTuple):
    """The place of one queue. Vhost and name are unchanged; they need not be UTF-8."""

    shard: int
    policy: str | None
    vhost: str
    name: str


class Homes:
    """The places of all queues: `by_id`."""

    def __init__(self) -> None:
        self.by_id: dict[int, Home] = {}

    def load(self, changes: Iterable[Change]) -> None:
        """Replace all places by those of a snapshot."""
        self.by_id.clear()
        self.apply(changes)

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes of the topology; only those of queues count."""
        for change in changes:
            if change[0] == "queue":
                queue = Queue(*change[1:])
                self.by_id[queue.queue_id] = Home(queue.shard, queue.policy, queue.vhost, queue.name)
            elif change[0] == "queue_gone":
                self.by_id.pop(change[3], None)
