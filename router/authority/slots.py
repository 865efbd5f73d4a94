"""Slots of the gauges, one for each queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection


class Slots:
    """The free ones of the `valid` slots.

    A freed slot goes to another queue of the same shard if possible, to one of another shard only if no fresh slot
    remains. Each shard closes and opens slots in the order of the changes, but two shards do not wait for each other:
    one could close the slot that the other has already opened. A later incarnation of the router does not know which
    shard had which slot, so slots that are still `open` though not `taken` come last.
    """

    def __init__(self, valid: range, taken: Collection[int], open: Collection[int] = ()) -> None:
        self._next = max((*taken, *open), default=valid.start - 1) + 1
        self._end = valid.stop
        free = [slot for slot in range(valid.start, self._next) if slot not in taken]
        self._freed: dict[int | None, deque[int]] = {None: deque(sorted(free, key=lambda slot: slot in open))}

    def copy(self) -> Slots:
        """Return slots with the same free ones."""
        copied = Slots(range(self._next, self._end), ())
        copied._freed = {shard: deque(freed) for shard, freed in self._freed.items()}
        return copied

    def allocate(self, shard: int) -> int | None:
        """Return a slot for a queue of the shard; None if all are taken."""
        if self._freed.get(shard):
            return self._freed[shard].popleft()
        if self._next < self._end:
            self._next += 1
            return self._next - 1
        for freed in self._freed.values():
            if freed:
                return freed.popleft()
        return None

    def free(self, slot: int, shard: int) -> None:
        """Free the slot of a queue of the shard."""
        self._freed.setdefault(shard, deque()).append(slot)
