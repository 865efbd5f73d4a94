"""Rates and samples of a course."""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.api.samples import Span, rate, samples
from console.course import Sample
from console.sampler import NOTHING

READY = attrgetter("ready")
WALL = 1_700_000_000.5
"""The moment of the wall clock at which the clock of the courses is at 0."""


def course(*readies: int) -> list[Sample]:
    """A course of one sample a second, from second 0."""
    return [Sample(float(second), ready, 0, NOTHING) for second, ready in enumerate(readies)]


def test_a_rate_is_that_of_the_last_seconds() -> None:
    assert rate(course(0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50), READY) == 10.0
    assert rate(course(50, 40, 30), READY) == -10.0
    assert rate(course(7), READY) == rate([], READY) == 0.0


def test_samples_are_given_at_whole_steps_the_latest_first() -> None:
    found = samples(course(*range(0, 100, 10)), READY, Span(4, 2), 9.0, WALL + 9.0)
    assert found == [
        {"sample": 70, "timestamp": 1_700_000_008_000},
        {"sample": 50, "timestamp": 1_700_000_006_000},
        {"sample": 30, "timestamp": 1_700_000_004_000},
    ]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 60), st.integers(1, 20), st.floats(0, 5))
def test_samples_never_reach_back_before_the_course(readies: list[int], age: int, step: int, later: float) -> None:
    now = len(readies) - 1 + later
    found = samples(course(*readies), READY, Span(age, step), now, WALL + now)
    assert len(found) <= age // step + 1
    stamps = [each["timestamp"] / 1000 for each in found]
    assert all(first - second == step for first, second in pairwise(stamps))
    for each in found:
        second = int(each["timestamp"] / 1000 - WALL)
        assert second >= 0 and each["sample"] == readies[min(second, len(readies) - 1)]


@pytest.mark.parametrize(("age", "step", "span"), [(None, 5, None), (60, None, None), (60, 5, Span(60, 5))])
def test_a_span_has_an_age_and_a_step(age: int | None, step: int | None, span: Span | None) -> None:
    assert Span.of(age, step) == span
    assert Span.of(86_400, 60) == Span(86_400, 60)
    assert Span.of(86_400, 5) == Span(7200, 5)
