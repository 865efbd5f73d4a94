"""The use of processors by the node's processes, measured between the last two samples."""

from __future__ import annotations

from collections.abc import Callable

from console.metrics.reading import Reading
from penstock.node.runtime_paths import Role

Place = tuple[Role, int]


class Processors:
    """The processor time of each process, sampled once a second while somebody looks. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[Place, tuple[float, float]] = {}
        self._percent: dict[Place, float] = {}

    def sample(self, reading: Reading) -> None:
        """Take a sample."""
        now = self._clock()
        seen = {place: (now, usage.cpu_seconds) for place, usage in reading.usage.items()}
        self._percent = {
            place: 100.0 * max(seconds - self._seen[place][1], 0.0) / (now - self._seen[place][0])
            for place, (_, seconds) in seen.items()
            if place in self._seen and now > self._seen[place][0]
        }
        self._seen = seen

    def percent(self, role: Role, index: int) -> float | None:
        """Return the use of one processor by a process, in percent; None while it is not known."""
        found = self._percent.get((role, index))
        return None if found is None else round(found, 1)
