"""The coordinator of a transaction over several shards: its requests to each, and when it goes on.

tests/shard/transactions/test_two_phase.py has the whole protocol, among processes that die.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acceptor.transactions.two_phase import TwoPhase
from penstock.bus.to_shard import Decide, Do, Prepared, Request

NUMBER = 7


class Line:
    """The link to a shard: it records the requests, which the test answers."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.asked: list[Request] = []
        self.replies: list[Callable[[Any, Sequence[Any] | None, Sequence[Any]], None]] = []

    def ask(self, request: Request, reply: Callable[[Any, Sequence[Any] | None, Sequence[Any]], None]) -> None:
        self.asked.append(request)
        self.replies.append(reply)

    def answer(self, result: bool = False) -> None:
        self.replies.pop(0)(result, None, ())


class Coordinated:
    """A transaction over shards 3, 1 and 4, and how often it was reported as done."""

    def __init__(self) -> None:
        self.lines = [Line(index) for index in (3, 1, 4)]
        self.done = 0
        self.two_phase = TwoPhase(NUMBER, self.lines, self.count)
        self.two_phase.begin()

    def count(self) -> None:
        self.done += 1

    def asked(self) -> list[list[type[Request]]]:
        """Return the types of the requests that each shard was sent."""
        return [[type(request) for request in line.asked] for line in self.lines]


@pytest.fixture
def coordinated() -> Coordinated:
    return Coordinated()


def test_the_first_shard_decides_once_all_have_kept_their_parts(coordinated: Coordinated) -> None:
    first, second, third = coordinated.lines
    assert coordinated.asked() == [[Prepared]] * 3
    second.answer()
    first.answer()
    assert coordinated.asked() == [[Prepared]] * 3
    third.answer()
    assert coordinated.asked() == [[Prepared, Decide], [Prepared], [Prepared]]
    assert first.asked[1] == Decide(NUMBER, [1, 4], False)


def test_all_do_it_once_the_decision_is_kept_and_then_it_is_over(coordinated: Coordinated) -> None:
    first, second, third = coordinated.lines
    for line in coordinated.lines:
        line.answer()
    assert Do not in coordinated.asked()[1]
    first.answer()
    assert second.asked[1:] == third.asked[1:] == first.asked[2:] == [Do(NUMBER)]
    third.answer()
    first.answer()
    assert coordinated.done == 0
    second.answer()
    assert coordinated.done == 1


@pytest.mark.parametrize("stored", [0, 1, 2])
def test_the_decider_learns_whether_any_store_has_a_part(coordinated: Coordinated, stored: int) -> None:
    for index, line in enumerate(coordinated.lines):
        line.answer(result=index == stored)
    assert coordinated.lines[0].asked[1] == Decide(NUMBER, [1, 4], True)


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_the_order_of_the_answers_does_not_matter(prepared: list[int], done: list[int]) -> None:
    coordinated = Coordinated()
    for index in prepared:
        assert Decide not in coordinated.asked()[0]
        coordinated.lines[index].answer()
    coordinated.lines[0].answer()
    for index in done:
        assert coordinated.done == 0
        coordinated.lines[index].answer()
    assert coordinated.done == 1
    assert [len(line.asked) for line in coordinated.lines] == [3, 2, 2]
