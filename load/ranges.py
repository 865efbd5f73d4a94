"""Sets of sequence numbers kept as ranges: a million consecutive messages cost one pair of integers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class RangeSet:
    """A set of integers as sorted, disjoint, half-open ranges that do not touch each other."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __len__(self) -> int:
        """The number of integers in the set (not of ranges)."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> int:
        """Add start … end-1; return how many of them the set already had."""
        if end <= start:
            return 0
        if self._ends and start == self._ends[-1]:  # the usual case: the next one in order
            self._ends[-1] = end
            return 0
        # every range that touches start … end is merged with it
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        known = sum(max(0, min(end, self._ends[at]) - max(start, self._starts[at])) for at in range(first, last))
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        return known

    def update(self, other: RangeSet) -> int:
        """Add all of `other`; return how many of its integers the set already had."""
        return sum(self.add(start, end) for start, end in other)

    def minus(self, other: RangeSet) -> RangeSet:
        """Return the integers in this set that are not in `other`."""
        left = RangeSet()
        for start, end in self:
            at = bisect_right(other._ends, start)
            while at < len(other._starts) and other._starts[at] < end:
                left.add(start, other._starts[at])
                start = other._ends[at]
                at += 1
            left.add(start, end)
        return left
