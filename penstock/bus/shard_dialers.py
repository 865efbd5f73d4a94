"""The connections of a process to its node's shards: one to each, to the latest known incarnation."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.bus.shard_incarnations import ShardIncarnations
from penstock.bus.turn_sockets import OnTurn, TurnDialer, TurnSockets
from penstock.node.node import Node


class ShardDialers:
    """The dialers of the process that shards know as `identity`; None for a shard that was not met, or has left."""

    def __init__(self, sockets: TurnSockets, node: Node, identity: bytes) -> None:
        self._sockets = sockets
        self._node = node
        self._identity = identity
        self._dialers: list[TurnDialer | None] = [None] * node.shard_places
        self._incarnations = ShardIncarnations(node.shard_places)

    def __getitem__(self, shard: int) -> TurnDialer | None:
        return self._dialers[shard]

    def __iter__(self) -> Iterator[TurnDialer]:
        return filter(None, self._dialers)

    def meet(self, shard: int, incarnation: int, on_turn: OnTurn) -> bool:
        """Connect to an incarnation of a shard, unless it or a later one was met; unsent turns to earlier ones are
        dropped. Return whether it was new.
        """
        if not self._incarnations.meet(shard, incarnation):
            return False
        self.leave(shard)
        path = self._node.shard(shard, incarnation)
        self._dialers[shard] = TurnDialer(self._sockets, path, self._identity, on_turn)
        return True

    def lose(self, shard: int, incarnation: int) -> bool:
        """Mark incarnations of a shard up to that one as dead; return whether this is news about the latest one met."""
        return self._incarnations.lose(shard, incarnation)

    def leave(self, shard: int) -> None:
        """Close the connection to a shard that was removed from the node."""
        dialer, self._dialers[shard] = self._dialers[shard], None
        if dialer is not None:
            dialer.close()
