"""The time for which clients are expected to wait for a move, estimated from earlier moves of the node.

A move has a fixed time, and a time for copying. Both are guesses until enough moves have been made: the fixed time is
then the median of the moves that copied next to nothing, and the guess for copying is multiplied by the median ratio of
actual to guessed time of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

OWN_MS = 10.0
MESSAGES_PER_MS = 250.0
BYTES_PER_MS = 200_000.0
"""The guesses."""
LITTLE_MS = 1.0
"""Moves whose copy is guessed to take less count as moves without a copy."""
MOVES_LEAST = 5
MOVES_MOST = 200
"""How many moves of each sort are needed, and how many of the latest count."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """An estimate: `own_ms` is the fixed time of a move, `factor` the ratio of actual to guessed time of a copy."""

    own_ms: float = OWN_MS
    factor: float = 1.0

    def expected(self, messages: int, nbytes: int) -> float:
        """Return the expected pause of a move in ms."""
        return round(self.own_ms + self.factor * _copying(messages, nbytes), 1)


def measured(records: Iterable[Mapping[str, Any]]) -> Pauses:
    """Return the estimate from records of the history (`ops.rebalance.records`), the latest last."""
    made = [
        (record["pause_ms"], _copying(record["messages"], record["bytes"]))
        for record in records
        if record["event"] == "move" and record["result"] == "moved" and record["pause_ms"] is not None
    ]
    empty = [pause for pause, copy in made if copy < LITTLE_MS][-MOVES_MOST:]
    own = median(empty) if len(empty) >= MOVES_LEAST else OWN_MS
    times = [max(pause - own, 0.0) / copy for pause, copy in made if copy >= LITTLE_MS][-MOVES_MOST:]
    return Pauses(own, median(times) if len(times) >= MOVES_LEAST else 1.0)


def _copying(messages: int, nbytes: int) -> float:
    """Return the guessed time of a copy in ms."""
    return messages / MESSAGES_PER_MS + nbytes / BYTES_PER_MS
