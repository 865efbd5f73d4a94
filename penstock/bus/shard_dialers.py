"""The connections of a process to its node's shards: one to each, to the latest known incarnation."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.bus.turn_sockets import OnTurn, TurnDialer, TurnSockets
from penstock.memory.gauges import UNSTARTED, Gauges
from penstock.node.node import Node


class ShardDialers:
    """The dialers of the process that shards know as `identity`; None for a shard that was not met, or has left.

    `_met` and `_lost` are the latest incarnations met, and known to be dead.
    """

    def __init__(self, sockets: TurnSockets, node: Node, identity: bytes) -> None:
        self._sockets = sockets
        self._node = node
        self._identity = identity
        self._dialers: list[TurnDialer | None] = [None] * node.shard_places
        self._met = [0] * node.shard_places
        self._lost = [0] * node.shard_places

    def __getitem__(self, shard: int) -> TurnDialer | None:
        return self._dialers[shard]

    def __iter__(self) -> Iterator[TurnDialer]:
        return filter(None, self._dialers)

    def meet(self, shard: int, incarnation: int, on_turn: OnTurn) -> bool:
        """Connect to an incarnation of a shard, unless it or a later one was met; unsent turns to earlier ones are
        dropped. Return whether it was new.
        """
        if self._met[shard] >= incarnation:
            return False
        self._met[shard] = incarnation
        self.leave(shard)
        path = self._node.shard(shard, incarnation)
        self._dialers[shard] = TurnDialer(self._sockets, path, self._identity, on_turn)
        return True

    def lose(self, shard: int, incarnation: int) -> bool:
        """Mark incarnations of a shard up to that one as dead; return whether this is news about the latest one met.

        A process may learn of an incarnation's death and of the next one in any order, or from the gauges.
        """
        is_news = self._lost[shard] < self._met[shard] <= incarnation
        if is_news:
            self._lost[shard] = incarnation
        return is_news

    def leave(self, shard: int) -> None:
        """Close the connection to a shard that was removed from the node."""
        dialer, self._dialers[shard] = self._dialers[shard], None
        if dialer is not None:
            dialer.close()


def started(gauges: Gauges, node: Node) -> Iterator[tuple[int, int]]:
    """The shards that were started, each with its incarnation."""
    for shard in range(node.shard_places):
        process = gauges.process_read("shard", shard)
        if process.state != UNSTARTED:
            yield shard, process.incarnation
