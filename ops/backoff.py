"""The delay before a process that died is restarted."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
STEADY_SECONDS = 10.0
"""A process that ran for this long did not die of its start: its successor starts at once."""


@dataclass(slots=True)
class Backoff:
    """The delay before a restart: none after a first death, then doubled with each quick death up to LONGEST_DELAY."""

    quick_deaths: int = 0

    def after(self, lived: float) -> float:
        """Return the seconds to wait before the restart of a process that ran for `lived` seconds."""
        if lived >= STEADY_SECONDS:
            self.quick_deaths = 0
        self.quick_deaths += 1
        if self.quick_deaths == 1:
            return 0.0
        exponent = min(self.quick_deaths - 2, 30)
        return float(min(LONGEST_DELAY, FIRST_DELAY * 2**exponent))
