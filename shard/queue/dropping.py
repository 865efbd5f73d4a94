"""Whether an unprivileged queue drops messages because of its size, as a table of transitions.

It does so from the moment it exceeds its limit until it is well below it, so that its owner is told once.
"""

from __future__ import annotations

from enum import Enum

from penstock.states.transitions import Transitions


class Dropping(Enum):
    """Whether a queue drops its oldest messages beyond a limit."""

    NO = "it drops nothing"
    BEGUN = "it drops, and its owner is still to be told"
    REPORTED = "it drops, and its owner knows"


class DropEvent(Enum):
    """The events of a queue with such a limit."""

    EXCEED = "it is beyond the limit"
    REPORT = "its owner is told"
    FALL = "it is well below the limit"


DROPPING = Transitions({
    Dropping.NO: {
        DropEvent.EXCEED: Dropping.BEGUN,
    },
    Dropping.BEGUN: {
        DropEvent.EXCEED: Dropping.BEGUN,
        DropEvent.REPORT: Dropping.REPORTED,
        DropEvent.FALL: Dropping.NO,
    },
    Dropping.REPORTED: {
        DropEvent.EXCEED: Dropping.REPORTED,
        DropEvent.FALL: Dropping.NO,
    },
})  # fmt: skip

NO = Dropping.NO
"""For comparisons of each queue in each turn: a global name is found sooner than a member of an enum."""
