"""A table of transitions: the events that it allows, and the error for all others."""

from __future__ import annotations

import pytest

from penstock.states.transitions import IllegalTransition, Staged, Symbol, Transitions


class Door(Symbol):
    OPEN = "one may pass"
    SHUT = "nobody may pass"


class Act(Symbol):
    SHUT = "somebody shuts it"
    KNOCK = "somebody knocks"


DOOR = Transitions({Door.OPEN: {Act.SHUT: Door.SHUT}, Door.SHUT: {Act.KNOCK: Door.SHUT}})


def test_an_event_leads_to_the_state_of_the_table() -> None:
    assert DOOR.after(Door.OPEN, Act.SHUT) is Door.SHUT
    assert DOOR.after(Door.SHUT, Act.KNOCK) is Door.SHUT


@pytest.mark.parametrize(("state", "event"), [(Door.OPEN, Act.KNOCK), (Door.SHUT, Act.SHUT)])
def test_an_event_without_a_transition_is_an_error_that_names_both(state: Door, event: Act) -> None:
    assert not DOOR.allows(state, event)
    with pytest.raises(IllegalTransition, match=f"{event.name} in state {state.name}"):
        DOOR.after(state, event)


def test_an_event_with_a_transition_is_allowed() -> None:
    assert DOOR.allows(Door.OPEN, Act.SHUT) and DOOR.allows(Door.SHUT, Act.KNOCK)


class Entrance(Staged[Door, Act]):
    transitions = DOOR

    def __init__(self) -> None:
        self.stage = Door.OPEN


def test_a_staged_thing_follows_its_table() -> None:
    entrance = Entrance()
    with pytest.raises(IllegalTransition):
        entrance.happened(Act.KNOCK)
    assert entrance.stage is Door.OPEN
    entrance.happened(Act.SHUT)
    assert entrance.stage is Door.SHUT
