"""The residence of a queue: the steps of a move, and steps that cannot happen."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.states.transitions import IllegalTransition
from shard.queue.residence import OPEN, RESIDENCE, Residence, Step
from tests.shard.making import queue_of

LEAVE, ARRIVE, COME_HOME, REATTACH = Step


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((LEAVE, COME_HOME, REATTACH), id="rolled back at the old home"),
        pytest.param((ARRIVE, COME_HOME, REATTACH), id="moved to the new home"),
        pytest.param((COME_HOME, REATTACH), id="the home of an undecided move was started again"),
        pytest.param((LEAVE, LEAVE, COME_HOME, REATTACH), id="the end of an earlier move went unseen"),
    ],
)
def test_a_move_ends_open_and_is_frozen_until_then(steps: tuple[Step, ...]) -> None:
    queue = queue_of()
    assert queue.residence is OPEN
    for step in steps:
        queue.move(step)
        assert (queue.residence is OPEN) == (step is REATTACH)


def test_a_step_that_does_not_follow_is_an_error_and_changes_nothing() -> None:
    for residence, step in product(Residence, Step):
        if RESIDENCE.allows(residence, step):
            continue
        queue = queue_of()
        queue.residence = residence
        with pytest.raises(IllegalTransition):
            queue.move(step)
        assert queue.residence is residence


def test_every_residence_is_reached_and_left() -> None:
    table = RESIDENCE.table
    assert all(table.values()) and {*table} == {*Residence}
    assert {following for steps in table.values() for following in steps.values()} == {*Residence}
    assert {step for steps in table.values() for step in steps} == {*Step}
