"""Consumers that a shard has delivered to, as its next incarnation must know them while their deliveries are unsettled.

A cancelled consumer, the gets of a channel, even a closed channel may have left deliveries that are not settled for
good; the rows of deliveries and settlements name a consumer by its id only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.batch.consumer_ids import GETS

# From this many entries on, unneeded ones are looked for, and then whenever the needed ones have doubled.
FEWEST = 1024


class DeliveredTo:
    """Queue id and channel group of each consumer id, for one acceptor and one shard."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}
        self.enough = FEWEST

    def record(self, consumer: int, queue: int, group: int) -> None:
        """Record the queue and channel group of a consumer."""
        self.known[consumer] = queue, group

    def named(self, consumers: Collection[int]) -> list[list[Any]]:
        """Return [consumer, queue id, group, whether it stands for gets] of each known consumer."""
        known = ((id, self.known.get(id)) for id in consumers)
        return [[id, *facts, bool(id & GETS)] for id, facts in known if facts is not None]

    def are_many(self) -> bool:
        """Whether it is worthwhile to look for unneeded entries."""
        return len(self.known) > self.enough

    def keep(self, consumers: Collection[int]) -> None:
        """Forget all consumers but these."""
        self.known = {id: self.known[id] for id in consumers if id in self.known}
        self.enough = max(2 * len(self.known), FEWEST)
