"""What a move costs: the work, by which plans are compared, and the pause, for which clients are expected to wait.

Most of a queue is copied while it is open (docs/rebalancing.md), so its size hardly matters for the pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

PAUSE_MS = 15.0
"""The pause of a move, until enough moves have been made."""
MOVES_LEAST = 5
MOVES_MOST = 200
"""How many moves are needed, and how many of the latest count."""
OWN_WORK = 2500
"""A move that copies nothing is as much work as a copy of so many messages."""
BYTES_A_MESSAGE = 800
"""A copy of so many bytes is as much work as one of a message, beside the messages."""


def expected_pause(records: Iterable[Mapping[str, Any]]) -> float:
    """Return the expected pause of a move in ms, from records of the history (`ops.rebalance.records`), the latest
    last: the median of the moves that were made.
    """
    made = [
        record["pause_ms"]
        for record in records
        if record["event"] == "move" and record["result"] == "moved" and record["pause_ms"] is not None
    ][-MOVES_MOST:]
    return round(median(made), 1) if len(made) >= MOVES_LEAST else PAUSE_MS


def work(messages: int, nbytes: int) -> int:
    """Return the work of a move that copies so much, in messages."""
    return OWN_WORK + messages + nbytes // BYTES_A_MESSAGE
