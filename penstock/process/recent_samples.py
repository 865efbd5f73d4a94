"""Recent measurements: durations, and lag of an event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque

MOST = 128
MEASURE_SECONDS = 0.1


class RecentSamples:
    """The last `MOST` numbers. One thread may add while another reads."""

    def __init__(self) -> None:
        self.numbers: deque[int] = deque(maxlen=MOST)

    def add(self, number: int) -> None:
        """Add a number; the oldest of too many is dropped."""
        self.numbers.append(number)

    def percentile(self, percent: int) -> int:
        """Nearest-rank percentile; 0 if there are no numbers."""
        ordered = sorted(self.numbers.copy())
        return ordered[max(-(-percent * len(ordered) // 100), 1) - 1] if ordered else 0


class LoopLag:
    """Event-loop lag in µs, measured each `MEASURE_SECONDS`; below 1 ms is timer resolution."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.samples = RecentSamples()
        self.due = 0
        self.measure_later()

    def measure_later(self) -> None:
        """Schedule the next measurement."""
        self.due = time.monotonic_ns() + int(MEASURE_SECONDS * 1e9)
        self.loop.call_later(MEASURE_SECONDS, self.measure)

    def measure(self) -> None:
        """Record the lag of a scheduled measurement."""
        self.samples.add(max(time.monotonic_ns() - self.due, 0) // 1000)
        self.measure_later()
