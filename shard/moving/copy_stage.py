"""How far the copy of a moving queue is, at its old home or its new one, as a table of transitions.

The old home's is DUE until everything sent there has arrived, and COMPLETE once it is written. The new home's is IN
PROGRESS from the start, and COMPLETE once all of it is in the store. After a failure, which is reported to the router,
or the end of its move, nothing more is done about it.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class CopyStage(Symbol):
    """How far a copy is."""

    DUE = "it waits until everything sent to the old home has arrived"
    IN_PROGRESS = "it is written, or read"
    COMPLETE = "it is written, or all of it is in the store"
    FAILED = "it could not be written or read; the router knows"
    OVER = "it is not needed any more"


class CopyEvent(Symbol):
    """The events of a copy."""

    BEGIN = "everything has arrived: the copy begins"
    COMPLETE = "the copy is complete"
    FAIL = "the copy fails"
    END = "its move is decided, or over"


COPY = Transitions({
    CopyStage.DUE: {
        CopyEvent.BEGIN: CopyStage.IN_PROGRESS,
        CopyEvent.FAIL: CopyStage.FAILED,
        CopyEvent.END: CopyStage.OVER,
    },
    CopyStage.IN_PROGRESS: {
        CopyEvent.COMPLETE: CopyStage.COMPLETE,
        CopyEvent.FAIL: CopyStage.FAILED,
        CopyEvent.END: CopyStage.OVER,
    },
    CopyStage.COMPLETE: {
        CopyEvent.END: CopyStage.OVER,
    },
    CopyStage.FAILED: {
        CopyEvent.END: CopyStage.OVER,
    },
    CopyStage.OVER: {},
})  # fmt: skip
