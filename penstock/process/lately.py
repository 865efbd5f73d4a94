"""The last measurements of something: how long it takes, how late it comes."""

from __future__ import annotations

import asyncio
import time
from collections import deque

MOST = 128
LOOK_SECONDS = 0.1


class Lately:
    """The last `MOST` numbers. One thread may add while another looks."""

    def __init__(self) -> None:
        self.numbers: deque[int] = deque(maxlen=MOST)

    def add(self, number: int) -> None:
        self.numbers.append(number)

    def percentile(self, percent: int) -> int:
        """The smallest of them that so many percent are not above; 0 if there is none."""
        ordered = sorted(self.numbers.copy())
        return ordered[max(-(-percent * len(ordered) // 100), 1) - 1] if ordered else 0


class LoopLag:
    """How late a loop comes to what is due, in microseconds, looked at each `LOOK_SECONDS`; a millisecond is nothing:
    loops have no finer timers.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.lately = Lately()
        self.due = 0
        self.look_later()

    def look_later(self) -> None:
        self.due = time.monotonic_ns() + int(LOOK_SECONDS * 1e9)
        self.loop.call_later(LOOK_SECONDS, self.look)

    def look(self) -> None:
        self.lately.add(max(time.monotonic_ns() - self.due, 0) // 1000)
        self.look_later()
