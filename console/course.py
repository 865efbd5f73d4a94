"""The recent course of the node, or of a queue: second by second for ten minutes, every ten seconds for an hour."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from penstock.memory.gauges import QueueCounters

KEPT = 600
"""Samples of the last ten minutes."""
COARSE, COARSE_KEPT = 10, 360
"""Each tenth sample is kept for an hour."""
FINE_MINUTES = 10


class Sample(NamedTuple):
    """The state of the node, or of a queue, at a moment in seconds of the machine's clock. `held` counts the held
    channels of the node; of a queue it is 1 while it is saturated.
    """

    at: float
    ready: int
    unacked: int
    counters: QueueCounters
    held: int = 0


class Course:
    """Samples, the oldest first. They come once a second."""

    def __init__(self) -> None:
        self.fine: deque[Sample] = deque(maxlen=KEPT)
        self.coarse: deque[Sample] = deque(maxlen=COARSE_KEPT)
        self._count = 0

    def add(self, sample: Sample) -> None:
        """Add the next sample."""
        self.fine.append(sample)
        if self._count % COARSE == 0:
            self.coarse.append(sample)
        self._count += 1

    def last(self, minutes: int) -> list[Sample]:
        """Return the samples of the last minutes, every ten seconds if they are more than ten."""
        return list(self.fine if minutes <= FINE_MINUTES else self.coarse)

    def clear(self) -> None:
        """Drop all samples."""
        self.fine.clear()
        self.coarse.clear()
        self._count = 0
