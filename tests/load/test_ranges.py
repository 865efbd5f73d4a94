from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from load.ranges import RangeSet

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda span: (span[0], span[0] + span[1])))


def members(ranges: RangeSet) -> set[int]:
    return {number for start, end in ranges for number in range(start, end)}


@given(spans)
def test_is_a_set_of_integers(added: list[tuple[int, int]]) -> None:
    """Compared with Python's own set, and always sorted, disjoint, not touching."""
    ranges, model = RangeSet(), set[int]()
    for start, end in added:
        new = set(range(start, end))
        assert ranges.add(start, end) == len(new & model)
        model |= new
        assert members(ranges) == model
        assert len(ranges) == len(model)
        plain = list(ranges)
        assert all(end < start for (_, end), (start, _) in pairwise(plain))


@given(spans, spans)
def test_minus_and_update(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    one, other = RangeSet(left), RangeSet(right)
    assert members(one.minus(other)) == members(one) - members(other)
    common = len(members(one) & members(other))
    union = members(one) | members(other)
    assert one.update(other) == common
    assert members(one) == union


def test_numbers_in_order_cost_one_range() -> None:
    ranges = RangeSet()
    for number in range(10_000):
        ranges.add(number, number + 1)
    assert list(ranges) == [(0, 10_000)]
