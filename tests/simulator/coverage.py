"""Counts the transitions of the tables of states.

A table says what can happen, so that a summary can name what never has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any
from unittest.mock import patch

from acceptor.clients.channel_stage import CHANNEL
from acceptor.clients.connection_stage import CONNECTION
from acceptor.moving.move_stage import MOVE
from penstock.bus.link_stage import LINK
from penstock.states.transitions import Transitions
from shard.moving.copy_stage import COPY
from shard.queue.deletion import DELETION
from shard.queue.dropping import DROPPING
from shard.queue.residence import RESIDENCE

TABLES: dict[str, Transitions[Any, Any]] = {
    "channel": CHANNEL, "connection": CONNECTION, "copy of a queue": COPY, "deletion": DELETION, "dropping": DROPPING,
    "link": LINK, "move at an acceptor": MOVE, "residence": RESIDENCE,
}  # fmt: skip
NAMES = {id(table): name for name, table in TABLES.items()}


class Coverage:
    """How often each transition happened, as (table, state, event), and how often an event was `noted` in the log, as
    (event, how).
    """

    def __init__(self) -> None:
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        self.noted: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the transitions that happen meanwhile."""
        plain = Transitions.after
        counts = self.transitions

        def after(table: Transitions[Any, Any], state: Enum, event: Enum) -> Any:
            counts[NAMES.get(id(table), "?"), state.name, event.name] += 1
            return plain(table, state, event)

        with patch.object(Transitions, "after", after):
            yield

    def __iadd__(self, other: Coverage) -> Coverage:
        """Add what was counted elsewhere."""
        self.transitions += other.transitions
        self.noted += other.noted
        return self

    def missing(self) -> list[tuple[str, str, str]]:
        """Return the transitions that never happened."""
        every = [
            (name, state.name, event.name)
            for name, table in TABLES.items()
            for state, events in table.table.items()
            for event in events
        ]
        return [each for each in every if each not in self.transitions]
