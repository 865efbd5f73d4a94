"""How long clients are expected to wait for a move, by what moves of this node have taken.

A move takes its time for itself, and more by what it copies. Both are guesses until enough moves have been made: what
one takes for itself is then the median of those that copied next to nothing, and what is guessed for the copy is
multiplied by the median of how many times that the others took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

OWN_MS = 10.0
MESSAGES_PER_MS = 250.0
OCTETS_PER_MS = 200_000.0
"""The guesses."""
LITTLE_MS = 1.0
"""A copy that is guessed to take less tells nothing of copies."""
MOVES_LEAST = 5
MOVES_MOST = 200
"""The latest moves of each sort that count."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """`own_ms`: of a move that copies nothing; `factor`: of what is guessed for a copy."""

    own_ms: float = OWN_MS
    factor: float = 1.0

    def expected(self, messages: int, octets: int) -> float:
        """Milliseconds."""
        return round(self.own_ms + self.factor * _copying(messages, octets), 1)


def measured(records: Iterable[Mapping[str, Any]]) -> Pauses:
    """By records of the history (`ops.rebalance.records`), the latest last."""
    made = [
        (record["pause_ms"], _copying(record["messages"], record["bytes"]))
        for record in records
        if record["event"] == "move" and record["result"] == "moved" and record["pause_ms"] is not None
    ]
    empty = [pause for pause, copy in made if copy < LITTLE_MS][-MOVES_MOST:]
    own = median(empty) if len(empty) >= MOVES_LEAST else OWN_MS
    times = [max(pause - own, 0.0) / copy for pause, copy in made if copy >= LITTLE_MS][-MOVES_MOST:]
    return Pauses(own, median(times) if len(times) >= MOVES_LEAST else 1.0)


def _copying(messages: int, octets: int) -> float:
    """What a copy is guessed to take, ms."""
    return messages / MESSAGES_PER_MS + octets / OCTETS_PER_MS
