"""The causes that hold a producer, and their durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.holding import CAUSES, Cause, Holding

steps = st.lists(st.tuples(st.sampled_from(CAUSES), st.booleans(), st.integers(0, 9)), max_size=30)


def test_it_is_held_as_long_as_there_is_any_cause() -> None:
    holding = Holding()
    assert not holding and holding.text() == ""
    holding.hold("flow", "channel.flow", 10.0)
    holding.hold("window", "the window is full", 12.0)
    assert holding and "flow" in holding and "window" in holding and "blocked" not in holding
    assert holding.text() == "channel.flow; the window is full"
    assert holding.release("flow", 15.0) == 5.0
    assert holding and "flow" not in holding and holding.held_seconds(16.0) == 6.0
    assert holding.release("window", 17.0) == 5.0
    assert not holding and holding.held_seconds(99.0) == 7.0
    assert holding.seconds(99.0) == {"flow": 5.0, "blocked": 0.0, "window": 5.0, "connection": 0.0}


def test_a_new_text_does_not_begin_a_cause_anew() -> None:
    holding = Holding()
    holding.hold("blocked", "one queue", 1.0)
    holding.hold("blocked", "two queues", 3.0)
    assert holding.text() == "two queues"
    assert holding.release("blocked", 4.0) == 3.0


@pytest.mark.parametrize("cause", CAUSES)
def test_an_absent_cause_cannot_end(cause: Cause) -> None:
    holding = Holding()
    assert holding.release(cause, 5.0) is None
    holding.hold(cause, "why", 5.0)
    assert (holding.release(cause, 6.0), holding.release(cause, 7.0)) == (1.0, None)
    assert holding.held_seconds(8.0) == 1.0


@given(steps)
def test_the_seconds_are_those_with_a_cause(found: list[tuple[Cause, bool, int]]) -> None:
    holding, present, now = Holding(), set[Cause](), 0
    seconds, held = dict.fromkeys(CAUSES, 0), 0
    for cause, begins, passed in found:
        now += passed
        for each in present:
            seconds[each] += passed
        held += passed if present else 0
        if begins:
            holding.hold(cause, "why", now)
            present.add(cause)
        else:
            holding.release(cause, now)
            present.discard(cause)
        assert holding.seconds(now) == seconds and holding.held_seconds(now) == held
        assert bool(holding) == bool(present) and {each for each in CAUSES if each in holding} == present
