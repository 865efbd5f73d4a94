"""A queue's move at an acceptor, as a table (acceptor/moving/moving.py says what each stage is for)."""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class MoveStage(Symbol):
    """How far the acceptor is with the move of a queue."""

    VOID = "the old home is down, or has died: its next incarnation is sent everything anyway"
    FENCING = "Fence was sent to the old home"
    DRAINED = "everything at the old home is known here and belongs to no shard; settlements gather"
    HOME = "consumers and unacked messages are attached to the home decided on; it has not opened yet"


class MoveEvent(Symbol):
    """An event in the move of a queue."""

    FENCE_SENT = "Fence is sent to the old home"
    OLD_HOME_DIED = "the old home dies before Fenced"
    DRAIN = "Fenced arrives: Drained is sent"
    GO_HOME = "the move is decided: Reattached is sent"


MOVE = Transitions({
    MoveStage.VOID: {
        MoveEvent.FENCE_SENT: MoveStage.FENCING,
        MoveEvent.GO_HOME: MoveStage.HOME,
    },
    MoveStage.FENCING: {
        MoveEvent.OLD_HOME_DIED: MoveStage.VOID,
        MoveEvent.DRAIN: MoveStage.DRAINED,
        MoveEvent.GO_HOME: MoveStage.HOME,
    },
    MoveStage.DRAINED: {
        MoveEvent.GO_HOME: MoveStage.HOME,
    },
    MoveStage.HOME: {},
})  # fmt: skip
