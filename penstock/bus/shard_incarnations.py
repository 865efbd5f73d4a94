"""The incarnations of a node's shards that a process knows, from events and from the gauges, in whatever order."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.memory.gauges import UNSTARTED, Gauges


class ShardIncarnations:
    """What one process knows of each shard: the latest incarnation that it has met, and the latest known to be dead."""

    def __init__(self, shards: int) -> None:
        self._met = [0] * shards
        self._lost = [0] * shards

    def met(self, shard: int) -> int:
        """Return the latest incarnation of a shard that was met, 0 for none."""
        return self._met[shard]

    def meet(self, shard: int, incarnation: int) -> bool:
        """Meet an incarnation of a shard; return whether it is later than all that were met."""
        is_new = self._met[shard] < incarnation
        if is_new:
            self._met[shard] = incarnation
        return is_new

    def lose(self, shard: int, incarnation: int) -> bool:
        """Mark incarnations of a shard up to that one as dead; return whether this is news about the latest one met.

        A process may learn of an incarnation's death and of the next one in any order, or from the gauges.
        """
        is_news = self._lost[shard] < self._met[shard] <= incarnation
        if is_news:
            self._lost[shard] = incarnation
        return is_news


def started(gauges: Gauges) -> Iterator[tuple[int, int]]:
    """The shards that were started, each with its incarnation."""
    for shard in range(gauges.shards):
        process = gauges.process_read("shard", shard)
        if process.state != UNSTARTED:
            yield shard, process.incarnation
