"""Users near their limit of unacked messages, published in memory that shards share."""

from __future__ import annotations

from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rows import Use, row_name
from shard.queue.hands import Hands


class ShownHands:
    """The part of one shard. Its part of the limits is its own, and so are its rows."""

    def __init__(self, shared: SharedCounts, hands: Hands, shard: int) -> None:
        self._shared = shared
        self._hands = hands
        self._shard = shard
        self._shown: dict[str, Use] = {}

    def publish_changes(self) -> None:
        """From time to time: publish the changes."""
        shown, self._shown = self._shown, {self._name(use): use for use in self._hands.uses() if use.is_near}
        for name in shown.keys() - self._shown.keys():
            self._shared.put(name, 0, None)
        for name, use in self._shown.items():
            if shown.get(name) != use:
                self._shared.put(name, use.used, use.number)

    def _name(self, use: Use) -> str:
        return row_name(f"{use.limit}-at-shard-{self._shard}", use.whose, use.name)
