"""Drops of an unprivileged queue: one report to its owner until the queue is well below the limit."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.states.transitions import IllegalTransition
from shard.queue.dropping import DROPPING, DropEvent, Dropping

EXCEED, REPORT, FALL = DropEvent


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((EXCEED,), Dropping.BEGUN),
        ((EXCEED, EXCEED), Dropping.BEGUN),
        ((EXCEED, REPORT, EXCEED), Dropping.REPORTED),
        ((EXCEED, REPORT, FALL), Dropping.NO),
        ((EXCEED, FALL), Dropping.NO),
        ((EXCEED, REPORT, FALL, EXCEED), Dropping.BEGUN),
    ],
)
def test_a_queue_is_to_be_reported_once_until_it_has_fallen(events: tuple[DropEvent, ...], expected: Dropping) -> None:
    state = Dropping.NO
    for event in events:
        state = DROPPING.after(state, event)
    assert state is expected


def test_an_event_that_cannot_happen_is_an_error() -> None:
    for state, event in product(Dropping, DropEvent):
        if not DROPPING.allows(state, event):
            with pytest.raises(IllegalTransition):
                DROPPING.after(state, event)
