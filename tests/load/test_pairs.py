from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from load.pairs import Ratio, compare, rank


def test_the_median_of_pairs_and_its_interval() -> None:
    a = [1.0, 2.0, 4.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    b = [1.0, 2.2, 4.8, 10.4, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]
    found = compare(a, b)
    assert found is not None
    assert (round(found.median, 6), found.low, found.high, found.pairs) == (1.45, 1.1, 1.8, 10)
    assert str(found) == "1.45 (1.10 to 1.80)"


def test_too_few_pairs_have_no_interval() -> None:
    assert compare([2.0] * 5, [1.0] * 5) == Ratio(0.5, None, None, 5)
    assert compare([2.0] * 6, [1.0] * 6) == Ratio(0.5, 0.5, 0.5, 6)
    assert str(compare([2.0], [1.0])) == "0.50"


def test_nothing_to_compare_with() -> None:
    assert compare([], []) is None
    assert compare([0.0], [1.0]) is None


def test_ranks_are_those_of_the_sign_test() -> None:
    # Tables of the sign test, two-sided, 5 %: the largest number of signs of the rarer kind, plus one.
    assert [rank(count) for count in (5, 6, 8, 9, 10, 12, 15, 20, 25)] == [0, 1, 1, 2, 2, 3, 4, 6, 8]


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_the_median_lies_within(figures: list[float]) -> None:
    found = compare([1.0] * len(figures), figures)
    assert found is not None
    assert found.low is None or found.high is None or found.low <= found.median <= found.high
