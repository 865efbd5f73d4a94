"""What a shard is doing, noted in the gauges: should its life end there, acceptors know at what (acceptor/suspects.py).

That is an operation of a turn, or, when turns have been taken in and their consequences follow, a queue. What ends one
life after the other is sent again to each, and comes at its beginning: so a first life notes nothing, nor does a later
one once it has taken in turns for NOTED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shard.contents.queue_cy import NEVER
from shard.turns.link import Link

if TYPE_CHECKING:
    from shard.turns.state import ShardState


NOTED = 60_000_000
"""Microseconds."""


class Doing:
    """What one shard does. `notes` says whether it notes that, `taken` is the last turn that it has taken in and not
    finished, by acceptor and its life.
    """

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.gauges = state.gauges
        self.notes = False
        self.taken: dict[tuple[int, int], int] = {}
        self._until = NEVER

    def begins(self, life: int) -> None:
        self.notes = life > 1

    def takes_in(self, link: Link, turn: int, index: int) -> None:
        """It begins with that operation of a turn."""
        if link.receiver is not None:
            self.gauges.pair_write_doing(link.receiver, self.state.index, link.incarnation, turn, index + 1)

    def has_taken_in(self, link: Link, turn: int) -> None:
        if link.receiver is not None:
            self.taken[link.receiver, link.incarnation] = turn
            life = self.state.incarnation
            self.gauges.pair_write_finishing(link.receiver, self.state.index, link.incarnation, turn, life)

    def finishes(self, queue: int) -> None:
        """It begins with the consequences for a queue; 0 for none."""
        self.gauges.finishing_write(self.state.index, self.state.incarnation, queue)

    def has_finished(self) -> None:
        """All that was taken in has had its consequences."""
        if self._until == NEVER:
            self._until = self.state.now + NOTED
        self.notes = self.state.now < self._until
        for (acceptor, incarnation), turn in self.taken.items():
            self.gauges.pair_write_doing(acceptor, self.state.index, incarnation, turn, 0)
        self.taken.clear()
