"""How far the copy of a moving queue is: what can happen to it, and what cannot."""

from __future__ import annotations

from itertools import product

import pytest

from shard.moving.copy_stage import TRANSITIONS, CopyEvent, CopyStage

BEGIN, COMPLETE, FAIL, END = CopyEvent


@pytest.mark.parametrize(
    ("first", "events", "last"),
    [
        (CopyStage.DUE, (BEGIN, COMPLETE, END), CopyStage.OVER),
        (CopyStage.DUE, (FAIL,), CopyStage.FAILED),
        (CopyStage.IN_PROGRESS, (COMPLETE,), CopyStage.COMPLETE),
        (CopyStage.IN_PROGRESS, (FAIL, END), CopyStage.OVER),
    ],
)
def test_a_copy_goes_on_to_its_end(first: CopyStage, events: tuple[CopyEvent, ...], last: CopyStage) -> None:
    stage = first
    for event in events:
        stage = stage.after(event)
    assert stage is last


def test_every_copy_may_end_at_any_time_but_only_once() -> None:
    for stage in set(CopyStage) - {CopyStage.OVER}:
        assert stage.after(END) is CopyStage.OVER
    assert CopyStage.OVER not in {stage for stage, _ in TRANSITIONS}


def test_an_event_that_cannot_happen_is_an_error() -> None:
    for stage, event in set(product(CopyStage, CopyEvent)) - TRANSITIONS.keys():
        with pytest.raises(KeyError):
            stage.after(event)
