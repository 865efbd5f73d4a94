"""The stages of a moving queue's copy: possible events, and events that cannot happen."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.states.transitions import IllegalTransition
from shard.moving.copy_stage import COPY, CopyEvent, CopyStage

STOP, BEGIN, COMPLETE, FAIL, END = CopyEvent


@pytest.mark.parametrize(
    ("first", "events", "last"),
    [
        (CopyStage.AHEAD, (STOP, BEGIN, COMPLETE, END), CopyStage.OVER),
        (CopyStage.AHEAD, (FAIL,), CopyStage.FAILED),
        (CopyStage.DUE, (FAIL,), CopyStage.FAILED),
        (CopyStage.IN_PROGRESS, (COMPLETE,), CopyStage.COMPLETE),
        (CopyStage.IN_PROGRESS, (FAIL, END), CopyStage.OVER),
    ],
)
def test_a_copy_goes_on_to_its_end(first: CopyStage, events: tuple[CopyEvent, ...], last: CopyStage) -> None:
    stage = first
    for event in events:
        stage = COPY.after(stage, event)
    assert stage is last


def test_every_copy_may_end_at_any_time_but_only_once() -> None:
    for stage in set(CopyStage) - {CopyStage.OVER}:
        assert COPY.after(stage, END) is CopyStage.OVER
    assert not COPY.table[CopyStage.OVER]


def test_an_event_that_cannot_happen_is_an_error() -> None:
    for stage, event in product(CopyStage, CopyEvent):
        if not COPY.allows(stage, event):
            with pytest.raises(IllegalTransition):
                COPY.after(stage, event)
