"""The stages of a move at an acceptor, and their order."""

from __future__ import annotations

import pytest

from acceptor.moving.move_stage import MOVE, MoveEvent, MoveStage
from penstock.states.transitions import IllegalTransition


def test_a_move_goes_from_the_fence_home() -> None:
    stage = MoveStage.VOID
    for event in MoveEvent.FENCE_SENT, MoveEvent.DRAIN, MoveEvent.GO_HOME:
        stage = MOVE.after(stage, event)
    assert stage is MoveStage.HOME and not MOVE.table[stage]


@pytest.mark.parametrize("event", [MoveEvent.OLD_HOME_DIED, MoveEvent.DRAIN, MoveEvent.FENCE_SENT])
def test_a_drained_queue_can_only_go_home(event: MoveEvent) -> None:
    """The old home has put the queue's unacked messages back: nothing about the queue concerns that shard any more."""
    with pytest.raises(IllegalTransition):
        MOVE.after(MoveStage.DRAINED, event)
