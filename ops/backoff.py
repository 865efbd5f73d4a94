"""When a process that has died is followed by the next one."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
STEADY_SECONDS = 10.0
"""A process that lived as long as this is not dying of its start: its successor starts at once."""


@dataclass(slots=True)
class Backoff:
    """Seconds to wait before a restart: none the first time, then longer and longer while deaths follow quickly."""

    quick_deaths: int = 0

    def after(self, lived: float) -> float:
        if lived >= STEADY_SECONDS:
            self.quick_deaths = 0
        self.quick_deaths += 1
        if self.quick_deaths == 1:
            return 0.0
        exponent = min(self.quick_deaths - 2, 30)
        return float(min(LONGEST_DELAY, FIRST_DELAY * 2**exponent))
