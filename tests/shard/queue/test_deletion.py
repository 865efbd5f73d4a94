"""The stages of a queue's deletion: possible events, and events that cannot happen."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.states.transitions import IllegalTransition
from shard.queue.deletion import DELETION, Deletion, DeletionEvent, Stage

ASK, REFUSE, REMOVE = DeletionEvent


@pytest.mark.parametrize(
    ("events", "stage"),
    [
        ((), Stage.KEPT),
        ((ASK,), Stage.ASKED),
        ((ASK, REFUSE), Stage.KEPT),
        ((ASK, REFUSE, ASK, REMOVE), Stage.GONE),
        ((REMOVE,), Stage.GONE),
    ],
)
def test_a_queue_is_kept_until_it_is_removed_and_may_be_asked_for_again(
    events: tuple[DeletionEvent, ...], stage: Stage
) -> None:
    deletion = Deletion()
    for event in events:
        deletion.happened(event)
    assert deletion.stage is stage


def test_an_event_that_cannot_happen_is_an_error_and_changes_nothing() -> None:
    for stage, event in product(Stage, DeletionEvent):
        if DELETION.allows(stage, event):
            continue
        deletion = Deletion()
        deletion.stage = stage
        with pytest.raises(IllegalTransition):
            deletion.happened(event)
        assert deletion.stage is stage


def test_nothing_happens_to_a_queue_that_is_gone() -> None:
    assert not DELETION.table[Stage.GONE]
