"""Distributions: values within the error that is stated, and nothing more lost by merging."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.summaries import distributions
from pipeline.summaries.distributions import ERROR

VALUES = st.floats(-1e15, 1e15).filter(lambda value: value == 0 or abs(value) > 1e-15)
GROUPS = 4
GROUPED = st.lists(st.tuples(st.integers(0, GROUPS - 1), VALUES), max_size=60)


def made(pairs: list[tuple[int, float]]) -> pa.Array:
    groups, values = ([pair[index] for pair in pairs] for index in (0, 1))
    return distributions.of_values(np.array(groups, np.int64), GROUPS, np.array(values, float))


@given(st.lists(VALUES, min_size=1))
def test_rounding_keeps_sign_order_and_value_within_the_error(values: list[float]) -> None:
    ordered = np.array(sorted(values))
    found = distributions.rounded(ordered)
    assert np.all(np.abs(found - ordered) <= np.abs(ordered) * ERROR)
    assert np.all(np.sign(found) == np.sign(ordered))
    assert np.all(np.diff(found) >= 0)
    assert np.array_equal(distributions.rounded(found), found), "what is rounded stays as it is"


@given(GROUPED)
def test_each_value_counts_in_its_group(pairs: list[tuple[int, float]]) -> None:
    found = made(pairs).to_pylist()
    for group in range(GROUPS):
        own = distributions.rounded(np.array([value for each, value in pairs if each == group], float))
        assert {pair["value"]: pair["times"] for pair in found[group]} == Counter(own.tolist())
        assert [pair["value"] for pair in found[group]] == sorted({*own.tolist()})


def test_nan_is_no_value() -> None:
    assert made([(1, float("nan")), (1, 2.0), (3, float("nan"))]).to_pylist()[3] == []


@given(GROUPED, st.integers(0, 60))
def test_merged_distributions_are_that_of_all_values(pairs: list[tuple[int, float]], cut: int) -> None:
    halves = pa.concat_arrays([made(pairs[:cut]), made(pairs[cut:])])
    groups = np.array([*range(GROUPS)] * 2, np.int64)
    assert distributions.merged(groups, GROUPS, halves).to_pylist() == made(pairs).to_pylist()


def test_distributions_of_a_slice_are_its_own() -> None:
    three = made([(0, 1.0), (1, 2.0), (1, 3.0), (2, 4.0)])
    found = distributions.merged(np.array([0], np.int64), 1, three.slice(1, 1))
    assert found.to_pylist() == three.slice(1, 1).to_pylist()
