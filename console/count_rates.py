"""Rates of counts that other processes keep, from the times at which they were asked for.

A rate is the growth since the ask before that lies at least a second back, as far as there is one: those who ask
more often, or at the same time, do not spoil each other's. At the first ask it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple

SPAN_SECONDS = 1.0
KEPT = 20_000
"""Objects of one kind whose counts are kept; those beyond have no rates."""
AWAKE_SECONDS = 300.0
"""All is forgotten once nobody has asked for so long."""

Counts = Mapping[str, int]


class Ask(NamedTuple):
    """The counts of an object at a moment, in seconds of the machine's clock."""

    at: float
    counts: Counts


class CountRates:
    """The last two asks of each object, by the object's kind and id. `clock` gives seconds of the machine's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked = 0.0
        self._kinds: dict[str, dict[Hashable, tuple[Ask, Ask]]] = {}

    def rates(self, kind: str, id: Hashable, counts: Counts) -> dict[str, float]:
        """Return by how much each count of an object has grown a second, and keep the counts."""
        now = self._asked = self._clock()
        of_kind = self._kinds.setdefault(kind, {})
        asks = of_kind.get(id)
        if asks is None:
            if len(of_kind) < KEPT:
                first = Ask(now, counts)
                of_kind[id] = first, first
            return dict.fromkeys(counts, 0.0)
        before, last = asks
        if now - last.at >= SPAN_SECONDS:
            before = last
            of_kind[id] = before, Ask(now, counts)
        seconds = now - before.at
        return {
            name: max(count - before.counts[name], 0) / seconds if seconds > 0 else 0.0
            for name, count in counts.items()
        }

    def keep(self, kind: str, ids: Collection[Hashable]) -> None:
        """Forget all objects of a kind but these, as the others are gone."""
        of_kind = self._kinds.get(kind, {})
        for id in of_kind.keys() - set(ids):
            del of_kind[id]

    def tick(self) -> None:
        """Forget all if nobody asks any more; called once a second."""
        if self._kinds and self._clock() - self._asked > AWAKE_SECONDS:
            self._kinds.clear()
