"""A table of transitions: for each state the events that may occur in it, and the state that each leads to.

States and events are symbols whose values are their meanings in words: `make docs` writes them into `docs/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound="Symbol")
E = TypeVar("E", bound="Symbol")


class Symbol(Enum):
    """A state or an event. Its hash is its identity, as is its equality: Enum's own hash is a call in Python, and a
    connection alone goes through a dozen transitions.
    """

    __hash__ = object.__hash__


class IllegalTransition(Exception):
    """An event occurred in a state in which it may not: a bug, as events from peers are checked with `allows`."""


class Transitions(Generic[S, E]):
    """The transitions of one kind of thing. `table` has all of its states; a thing begins in the first one."""

    def __init__(self, table: Mapping[S, Mapping[E, S]]) -> None:
        self.table = table

    def allows(self, state: S, event: E) -> bool:
        """Whether an event may occur in a state."""
        return event in self.table[state]

    def after(self, state: S, event: E) -> S:
        """Return the state that an event leads to. IllegalTransition if it may not occur."""
        following = self.table[state].get(event)
        if following is None:
            raise IllegalTransition(f"{event.name} in state {state.name}")
        return following


class Staged(Generic[S, E]):
    """Has a stage that follows `transitions`."""

    __slots__ = ("stage",)
    transitions: Transitions[S, E]
    stage: S

    def happened(self, event: E) -> None:
        """Enter the stage that an event leads to. IllegalTransition if it may not occur."""
        self.stage = self.transitions.after(self.stage, event)
