"""Counts of bindings: a destination exists as long as a binding leads to it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.model.records import Destination
from router.model.tally import Tally

ONE: Destination = ("queue", "q")
OTHERS: list[Destination] = [("queue", "r"), ("exchange", "q")]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([ONE, *OTHERS])), max_size=30))
def test_it_counts_what_was_added_and_not_removed(steps: list[tuple[bool, Destination]]) -> None:
    tally, expected = Tally(), Counter[Destination]()
    for added, destination in steps:
        if added:
            tally.add(destination)
            expected[destination] += 1
        elif expected[destination]:
            tally.remove(destination)
            expected[destination] -= 1
        assert dict(tally) == dict(+expected)


def test_no_binding_can_be_removed_that_is_not_counted() -> None:
    tally = Tally()
    tally.add(ONE)
    tally.remove(ONE)
    with pytest.raises(KeyError):
        tally.remove(ONE)
    assert not tally
