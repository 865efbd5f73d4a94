"""Timers by key: those that are due are found without visiting the others."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

# Entries of rescheduled and removed timers stay in the heap until they come up, or are more than this and the timers.
SPARE = 64


class DeadlineQueue(Generic[T]):
    """A set of timers, each with one time in the caller's seconds. A removed one holds no reference to its key."""

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
        """Set or reschedule the timer of `who`."""
        self.discard(who)
        self._number += 1
        self._numbers[who] = self._number
        self._due[self._number] = when, who
        heappush(self._heap, (when, self._number))
        if len(self._heap) > 2 * len(self._due) + SPARE:
            self._heap = [(when, number) for number, (when, _) in self._due.items()]
            heapify(self._heap)

    def discard(self, who: T) -> None:
        """Remove the timer of `who`, if there is one."""
        number = self._numbers.pop(who, None)
        if number is not None:
            del self._due[number]

    def pop_due(self, now: float) -> list[T]:
        """Remove and return the keys that are due, in the order of their times."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, number = heappop(self._heap)
            if number in self._due:
                _, who = self._due.pop(number)
                del self._numbers[who]
                found.append(who)
        return found
