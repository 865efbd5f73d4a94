"""The node's other processes, as the router finds them in the gauges.

The supervisor records a death there before it announces it; its events say when to check. So a router that did not run
at the time finds the death too.
"""

from __future__ import annotations

from penstock.memory.gauges import DEAD, READY, UNSTARTED, Gauges
from router.core import RouterCore


class Processes:
    """The acceptors and shards of a node. Moves and placement ask here about shards."""

    def __init__(self, core: RouterCore, gauges: Gauges) -> None:
        self._core = core
        self._gauges = gauges
        self._moves = core.authority.moves
        self._moves.incarnation_of = self.incarnation_of
        self._moves.is_full = gauges.saturated
        placing = core.authority.placing
        placing.state_of = lambda shard: gauges.process_read("shard", shard).state
        placing.bytes_of = self.bytes_of

    def handle_deaths(self) -> None:
        """Delete the exclusive queues of dead acceptors and roll back the moves of dead shards, with the end of the
        turn.
        """
        for index in range(self._gauges.acceptors):
            acceptor = self._gauges.process_read("acceptor", index)
            if acceptor.torn or acceptor.state == UNSTARTED:
                continue
            ended = acceptor.state == DEAD
            self._core.acceptor_died(index, acceptor.incarnation if ended else acceptor.incarnation - 1)
        self._moves.roll_back_failed()

    def incarnation_of(self, shard: int) -> int:
        """Return the incarnation of a serving shard, 0 for any other."""
        process = self._gauges.process_read("shard", shard)
        return process.incarnation if process.state == READY else 0

    def bytes_of(self, shard: int) -> tuple[int, int]:
        """Return the bytes that a shard has in memory and in its store."""
        gate = self._gauges.queue_read(shard)
        return gate.ready_bytes if gate else 0, self._gauges.measures_read("shard", shard).stored_bytes
