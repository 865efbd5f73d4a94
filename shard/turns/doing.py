"""The shard's current work, recorded in the gauges: if the shard dies, acceptors know at what
(acceptor/moving/suspects.py).

The record is an operation of a turn or, while the consequences of applied turns follow, a queue. A turn that kills one
incarnation after another is resent to each and comes at its beginning. So a first incarnation records nothing, and a
later one stops recording NOTED microseconds after its first turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard.contents.queue_cy import NEVER
from shard.turns.link import Link

if TYPE_CHECKING:
    from shard.turns.state import ShardState


NOTED = 60_000_000
"""Microseconds for which a later incarnation records its work."""


class Doing:
    """The work of one shard. `recording` says whether it is recorded; `received` is the last turn applied and not yet
    finished, by acceptor and its incarnation.
    """

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.gauges = state.gauges
        self.recording = False
        self.received: dict[tuple[int, int], int] = {}
        self._until = NEVER

    def begins(self, incarnation: int) -> None:
        """An incarnation of the shard begins."""
        self.recording = incarnation > 1

    def takes_in(self, link: Link, turn: int, index: int) -> None:
        """The shard begins to apply an operation of a turn."""
        if link.receiver is not None:
            self.gauges.pair_write_doing(link.receiver, self.state.index, link.incarnation, turn, index + 1)

    def has_taken_in(self, link: Link, turn: int) -> None:
        """All operations of a turn have been applied; their consequences follow."""
        if link.receiver is not None:
            self.received[link.receiver, link.incarnation] = turn
            incarnation = self.state.incarnation
            self.gauges.pair_write_finishing(link.receiver, self.state.index, link.incarnation, turn, incarnation)

    def finishes(self, queue: int) -> None:
        """The shard begins with the consequences for a queue; 0 for none."""
        self.gauges.finishing_write(self.state.index, self.state.incarnation, queue)

    def has_finished(self) -> None:
        """The consequences of all applied turns are done."""
        if self._until == NEVER:
            self._until = self.state.now + NOTED
        self.recording = self.state.now < self._until
        for (acceptor, incarnation), turn in self.received.items():
            self.gauges.pair_write_doing(acceptor, self.state.index, incarnation, turn, 0)
        self.received.clear()
