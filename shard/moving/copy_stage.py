"""How far the copy of a moving queue is, at its old home or its new one, as a table of transitions.

The old home's is DUE until everything sent there has arrived, and COMPLETE once it is written. The new home's is IN
PROGRESS from the start, and COMPLETE once all of it is in the store. After a failure, which is reported to the router,
or the end of its move, nothing more is done about it.
"""

from __future__ import annotations

from enum import Enum


class CopyStage(Enum):
    """How far a copy is."""

    DUE = "due"
    IN_PROGRESS = "in progress"
    COMPLETE = "complete"
    FAILED = "failed"
    OVER = "over"
    """The copy is not needed any more."""

    def after(self, event: CopyEvent) -> CopyStage:
        """Return the stage after an event. KeyError if the event cannot happen."""
        return TRANSITIONS[self, event]


class CopyEvent(Enum):
    """What happens to a copy."""

    BEGIN = "begin"
    COMPLETE = "complete"
    FAIL = "fail"
    END = "end"
    """Its move is decided, or over."""


TRANSITIONS: dict[tuple[CopyStage, CopyEvent], CopyStage] = {
    (CopyStage.DUE, CopyEvent.BEGIN): CopyStage.IN_PROGRESS,
    (CopyStage.DUE, CopyEvent.FAIL): CopyStage.FAILED,
    (CopyStage.DUE, CopyEvent.END): CopyStage.OVER,
    (CopyStage.IN_PROGRESS, CopyEvent.COMPLETE): CopyStage.COMPLETE,
    (CopyStage.IN_PROGRESS, CopyEvent.FAIL): CopyStage.FAILED,
    (CopyStage.IN_PROGRESS, CopyEvent.END): CopyStage.OVER,
    (CopyStage.COMPLETE, CopyEvent.END): CopyStage.OVER,
    (CopyStage.FAILED, CopyEvent.END): CopyStage.OVER,
}
"""The stage after each event; an event that is not in the table is a programming error."""
