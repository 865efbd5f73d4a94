"""Queues that move between shards, as rules, and invariants once everything has come to rest."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.flow.operators import Operators
from tests.flow.world import KINDS

# The results of moves that were begun, or were not.
RESULTS = ("moved", "rolled-back", "already-there", "busy", "no-queue", "refused")
# Why one is not begun, or is rolled back: a process has died, an operator has asked, or the target has no room.
REASONS = ("has died", "aborted", "does not serve", "no room")


class Moves(Operators):
    """Operators move queues to other shards, and change their minds."""

    def __init__(self) -> None:
        super().__init__()
        # The answers to requests to move, of this incarnation of the router.
        self.moves: list[list[dict[str, Any]]] = []
        self.moved: set[str] = set()

    @rule(kind=st.sampled_from([*KINDS]), shard=st.integers(0, 9))
    def move_queue(self, kind: str, shard: int) -> None:
        """Move the queue of a kind; its producers are held until the move is over."""
        kept, shards = self.living().get(kind), len(self.node.shards)
        if kept is not None and self.node.router_lives:
            self.moved.add(kept.name)
            home = self.node.queue(kept.name).shard
            self.moves.append(self.node.move(kept.name, (home + 1 + shard % max(shards - 1, 1)) % shards))

    @rule(kind=st.sampled_from([*KINDS]))
    def abort_move(self, kind: str) -> None:
        """Abort the move of a kind's queue."""
        if kind in self.living() and self.node.router_lives:
            self.node.abort_move(self.living()[kind].name)

    def moves_are_answered(self) -> None:
        """Check that every request is answered."""
        for results in self.moves:
            (answer,) = results
            assert answer["result"] in RESULTS
            unsaid = answer["result"] not in ("refused", "rolled-back")
            assert unsaid or any(reason in answer["reason"] for reason in REASONS), answer
        self.moves.clear()
