"""Who a shard has delivered to: what its next life must be told of those whose deliveries are still in hand.

A consumer that was cancelled, the gets of a channel, even a channel that is gone may have left something that is not
settled for good; the rows of deliveries and settlements name a consumer's id only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from acceptor.unacked_cy import GETS

# From so many on it is looked whether they are still needed, and then from twice as many as were.
FEWEST = 1024


class Holders:
    """Queue id and channel's group of each consumer id, of one acceptor at one shard."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}
        self.enough = FEWEST

    def note(self, consumer: int, queue: int, group: int) -> None:
        self.known[consumer] = queue, group

    def named(self, consumers: Collection[int]) -> list[list[Any]]:
        """[consumer, queue id, group, whether it stands for gets] of each."""
        known = ((id, self.known.get(id)) for id in consumers)
        return [[id, *facts, bool(id & GETS)] for id, facts in known if facts is not None]

    def are_many(self) -> bool:
        """Whether it is worth while to look which of them are needed."""
        return len(self.known) > self.enough

    def keep(self, consumers: Collection[int]) -> None:
        """Forget all others."""
        self.known = {id: self.known[id] for id in consumers if id in self.known}
        self.enough = max(2 * len(self.known), FEWEST)
