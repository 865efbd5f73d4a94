"""Whether an unprivileged queue drops messages because of its size, as a table of transitions.

It does so from the moment it exceeds its limit until it is well below it, so that its owner is told once.
"""

from __future__ import annotations

from enum import Enum


class Dropping(Enum):
    """Whether a queue drops its oldest messages beyond a limit."""

    NO = "no"
    BEGUN = "begun"
    """It drops, and its owner is still to be told."""
    REPORTED = "reported"
    """It drops, and its owner knows."""

    def after(self, event: DropEvent) -> Dropping:
        """Return the state after an event. KeyError if the event cannot happen."""
        return TRANSITIONS[self, event]


class DropEvent(Enum):
    """What happens to a queue with such a limit."""

    EXCEED = "exceed"
    """It is beyond the limit."""
    REPORT = "report"
    """Its owner is told."""
    FALL = "fall"
    """It is well below the limit."""


NO = Dropping.NO
"""For what is asked of each queue in each turn: a global name is found sooner than a member."""

TRANSITIONS: dict[tuple[Dropping, DropEvent], Dropping] = {
    (Dropping.NO, DropEvent.EXCEED): Dropping.BEGUN,
    (Dropping.BEGUN, DropEvent.EXCEED): Dropping.BEGUN,
    (Dropping.REPORTED, DropEvent.EXCEED): Dropping.REPORTED,
    (Dropping.BEGUN, DropEvent.REPORT): Dropping.REPORTED,
    (Dropping.BEGUN, DropEvent.FALL): Dropping.NO,
    (Dropping.REPORTED, DropEvent.FALL): Dropping.NO,
}
"""The state after each event; an event that is not in the table is a programming error."""
