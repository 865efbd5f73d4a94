"""How far the copy of a moving queue is, at its old home or its new one, as a table of transitions.

The old home's is AHEAD while the queue is open, DUE until everything sent there has arrived, and COMPLETE once it is
written. The new home's is IN PROGRESS from the start, and COMPLETE once all of it is in the store. After a failure,
which is reported to the router, or the end of its move, nothing more is done about it.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class CopyStage(Symbol):
    """How far a copy is."""

    AHEAD = "the queue is open, and most of it is written"
    DUE = "it waits until everything sent to the old home has arrived"
    IN_PROGRESS = "it is written, or read"
    COMPLETE = "it is written, or all of it is in the store"
    FAILED = "it could not be written or read; the router knows"
    OVER = "it is not needed any more"


class CopyEvent(Symbol):
    """The events of a copy."""

    STOP = "the router stops the queue"
    BEGIN = "everything has arrived: the rest of the copy is written"
    COMPLETE = "the copy is complete"
    FAIL = "the copy fails"
    END = "its move is decided, or over"


COPY = Transitions({
    CopyStage.AHEAD: {
        CopyEvent.STOP: CopyStage.DUE,
        CopyEvent.FAIL: CopyStage.FAILED,
        CopyEvent.END: CopyStage.OVER,
    },
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
