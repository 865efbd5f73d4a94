"""Virtual time: actions in the order of their times."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Timeline:
    """Actions by the time when they are due, in seconds of virtual time; those of one time in the order of their
    addition.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        self._due: list[tuple[float, int, Action]] = []
        self._added = 0

    def after(self, seconds: float, action: Action) -> None:
        """Have an action carried out some seconds from now."""
        self.at(self.now + seconds, action)

    def at(self, when: float, action: Action) -> None:
        """Have an action carried out at a time, or now if that is past."""
        self._added += 1
        heapq.heappush(self._due, (max(when, self.now), self._added, action))

    def pop(self, until: float) -> Action | None:
        """Advance to the next action not later than `until`, remove and return it; None if there is none."""
        if not self._due or self._due[0][0] > until:
            self.now = max(self.now, until)
            return None
        self.now, _, action = heapq.heappop(self._due)
        return action
