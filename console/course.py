"""The recent course of the node, or of a queue: each second of ten minutes, every ten seconds of an hour, every two
minutes of a day; less often where samples came less often (`console.sampler`).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from penstock.memory.gauges import QueueCounters

FINE_MINUTES, COARSE_MINUTES, DAY_MINUTES = 10, 60, 1440
COARSE_SECONDS, DAY_SECONDS = 10.0, 120.0
"""Between samples that are kept for an hour, and for a day."""
JITTER = 0.5
"""Seconds that a sample may come early."""


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
    """Samples, the oldest first, at three resolutions."""

    def __init__(self) -> None:
        self.fine: deque[Sample] = deque()
        self.coarse: deque[Sample] = deque()
        self.day: deque[Sample] = deque()

    def add(self, sample: Sample) -> None:
        """Add the next sample; drop those that are too old."""
        for kept, minutes, seconds in (
            (self.fine, FINE_MINUTES, 0.0),
            (self.coarse, COARSE_MINUTES, COARSE_SECONDS),
            (self.day, DAY_MINUTES, DAY_SECONDS),
        ):
            if not kept or sample.at - kept[-1].at >= seconds - JITTER:
                kept.append(sample)
            while kept[0].at <= sample.at - 60 * minutes:
                kept.popleft()

    def last(self, minutes: int) -> list[Sample]:
        """Return the samples of the last minutes, to the newest, at the finest resolution that reaches so far."""
        kept = self.fine if minutes <= FINE_MINUTES else self.coarse if minutes <= COARSE_MINUTES else self.day
        if not kept:
            return []
        newest = self.fine[-1]
        return [*(sample for sample in kept if newest.at - 60 * minutes < sample.at < newest.at), newest]

    def all(self) -> list[Sample]:
        """Return all samples, each part at its finest resolution."""
        if not self.fine:
            return []
        older = [sample for sample in self.coarse if sample.at < self.fine[0].at]
        oldest = older[0].at if older else self.fine[0].at
        return [*(sample for sample in self.day if sample.at < oldest), *older, *self.fine]
