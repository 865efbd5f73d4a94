"""Sets of integers as ranges, compiled and plain, against sets."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.twins import both_ways, load_compiled, load_plain

NAME = "penstock.batch.ranges_cy"
MODULES = load_compiled(NAME), load_plain(NAME)

numbers = st.integers(0, 60) | st.integers(2**62 - 30, 2**62)
counts = st.integers(1, 12)


def runs(integers: set[int]) -> list[tuple[int, int]]:
    """Return (start, end) of each unbroken run."""
    found: list[tuple[int, int]] = []
    for n in sorted(integers):
        if found and found[-1][1] == n:
            found[-1] = found[-1][0], n + 1
        else:
            found.append((n, n + 1))
    return found


class Ranges(RuleBasedStateMachine):
    """The same operations on a set and on both kinds of RangeSet."""

    def __init__(self) -> None:
        super().__init__()
        self.model: set[int] = set()
        self.sets = [module.RangeSet() for module in MODULES]

    def both(self, call: Callable[[Any], Any]) -> Any:
        compiled, plain = (call(each) for each in self.sets)
        assert compiled == plain
        return compiled

    @rule(start=numbers, count=counts)
    def add_what_is_not_there(self, start: int, count: int) -> None:
        for low, high in runs(set(range(start, start + count)) - self.model):
            self.both(lambda s, low=low, high=high: s.add(low, high - low))  # type: ignore[misc]
        self.model.update(range(start, start + count))

    @rule(count=counts)
    def add_at_the_end(self, count: int) -> None:
        start = max(self.model, default=-1) + 1
        self.both(lambda s: s.add(start, count))
        self.model.update(range(start, start + count))

    @rule(start=numbers, count=st.integers(1, 80))
    def remove(self, start: int, count: int) -> None:
        there = self.model & set(range(start, start + count))
        pieces = [(low, low + size) for low, size in self.both(lambda s: s.remove(start, count))]
        assert [n for low, high in pieces for n in range(low, high)] == sorted(there)
        assert pieces == runs(there)
        self.model -= there

    @precondition(lambda self: self.model)
    @rule(limit=st.integers(1, 20))
    def pop_first(self, limit: int) -> None:
        start, count = self.both(lambda s: s.pop_first(limit))
        low, high = runs(self.model)[0]
        assert (start, count) == (low, min(limit, high - low))
        self.model -= set(range(start, start + count))

    @rule()
    def clear(self) -> None:
        self.both(lambda s: s.clear())
        self.model.clear()

    @invariant()
    def same(self) -> None:
        assert self.both(lambda s: s.ranges()) == runs(self.model)
        assert self.both(lambda s: (s.total, len(s), bool(s))) == (len(self.model), len(self.model), bool(self.model))
        if self.model:
            assert self.both(lambda s: s.first()) == min(self.model)


TestRanges = Ranges.TestCase
TestRanges.settings = settings(max_examples=60, stateful_step_count=30)


@both_ways
def test_an_empty_set_has_no_first(load: Callable[[str], ModuleType]) -> None:
    empty = load(NAME).RangeSet()
    with pytest.raises(IndexError):
        empty.first()
    assert empty.remove(0, 10) == empty.ranges() == []
