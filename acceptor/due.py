"""Who is due at some time: found without a look at all those who are not."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

# The number of what was put off or taken out stays in the heap until it comes up, but of no more than so much beside
# what is due.
SPARE = 64


class Due(Generic[T]):
    """Each has one time, in the caller's seconds. Who is taken out is forgotten at once."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._due: dict[int, tuple[float, T]] = {}
        self._heap: list[tuple[float, int]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, who: T) -> bool:
        return who in self._numbers

    def put(self, who: T, when: float) -> None:
        """Due then, and not when it was before."""
        self.discard(who)
        self._number += 1
        self._numbers[who] = self._number
        self._due[self._number] = when, who
        heappush(self._heap, (when, self._number))
        if len(self._heap) > 2 * len(self._due) + SPARE:
            self._heap = [(when, number) for number, (when, _) in self._due.items()]
            heapify(self._heap)

    def discard(self, who: T) -> None:
        number = self._numbers.pop(who, None)
        if number is not None:
            del self._due[number]

    def take(self, now: float) -> list[T]:
        """Those whose time has come, in the order of their times; they are due no more."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, number = heappop(self._heap)
            if number in self._due:
                _, who = self._due.pop(number)
                del self._numbers[who]
                found.append(who)
        return found
