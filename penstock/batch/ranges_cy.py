# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Sets of integers as ranges: sequence numbers of unacked messages, confirmed tags."""

from __future__ import annotations

from bisect import bisect_right


class RangeSet:
    """A set of integers kept as sorted, disjoint, non-adjacent ranges; `total` is the number of integers."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.total = 0

    def __len__(self) -> int:
        return self.total

    def ranges(self) -> list[tuple[int, int]]:
        """(start, end) of each range, end exclusive."""
        return list(zip(self.starts, self.ends, strict=True))

    def first(self) -> int:
        """The lowest integer. IndexError if there is none."""
        if not self.total:
            raise IndexError("the set is empty")
        return self.starts[0]

    def holds(self, value: int) -> bool:
        """Whether the set has an integer."""
        i = bisect_right(self.starts, value)
        return i > 0 and value < self.ends[i - 1]

    def meets(self, start: int, end: int) -> bool:
        """Whether the set has any integer from `start` up to, not including, `end`."""
        i = bisect_right(self.ends, start)
        return i < len(self.starts) and self.starts[i] < end

    def first_range(self) -> tuple[int, int]:
        """(start, end) of the lowest range; the set must not be empty."""
        return self.starts[0], self.ends[0]

    def clear(self) -> None:
        """Remove all integers."""
        self.starts.clear()
        self.ends.clear()
        self.total = 0

    def add(self, start: int, count: int) -> None:
        """Add a range that does not overlap the set."""
        end = start + count
        self.total += count
        n = len(self.ends)
        if n == 0 or self.ends[n - 1] < start:
            self.starts.append(start)
            self.ends.append(end)
            return
        if self.ends[n - 1] == start:
            self.ends[n - 1] = end
            return
        i = bisect_right(self.starts, start)
        joins_left = i > 0 and self.ends[i - 1] == start
        joins_right = i < n and self.starts[i] == end
        if joins_left and joins_right:
            self.ends[i - 1] = self.ends[i]
            del self.starts[i], self.ends[i]
        elif joins_left:
            self.ends[i - 1] = end
        elif joins_right:
            self.starts[i] = start
        else:
            self.starts.insert(i, start)
            self.ends.insert(i, end)

    def remove(self, start: int, count: int) -> list[tuple[int, int]]:
        """Remove a range, as far as it is in the set; return the removed pieces as (start, count)."""
        end = start + count
        removed = []
        i = bisect_right(self.ends, start)
        while i < len(self.starts):
            low = self.starts[i]
            high = self.ends[i]
            if low >= end:
                break
            a = max(low, start)
            b = min(high, end)
            removed.append((a, b - a))
            self.total -= b - a
            if a == low and b == high:
                del self.starts[i], self.ends[i]
            elif a == low:
                self.starts[i] = b
                i += 1
            elif b == high:
                self.ends[i] = a
                i += 1
            else:
                self.ends[i] = a
                self.starts.insert(i + 1, b)
                self.ends.insert(i + 1, high)
                i += 2
        return removed

    def pop_first(self, limit: int) -> tuple[int, int]:
        """Remove at most `limit` integers from the start of the lowest range; return (start, count)."""
        low = self.starts[0]
        high = self.ends[0]
        if high - low <= limit:
            del self.starts[0], self.ends[0]
            limit = high - low
        else:
            self.starts[0] = low + limit
        self.total -= limit
        return low, limit
