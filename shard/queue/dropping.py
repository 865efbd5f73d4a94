"""Whether an unprivileged queue drops messages because of its size, as a table of transitions.

It does so from the moment it exceeds its limit until it is well below it, so that its owner gets one event.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class Dropping(Symbol):
    """Whether a queue drops its oldest messages beyond a limit."""

    NO = "it drops nothing"
    BEGUN = "it drops, and no event has been recorded yet"
    REPORTED = "it drops, and the event is recorded"


class DropEvent(Symbol):
    """The events of a queue with such a limit."""

    EXCEED = "it is beyond the limit"
    REPORT = "an event is recorded"
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
