"""How soon an acceptor acts on a shard's decision to stop producers, or to let them go.

A delay begins with the shard's decision, at the end of its turn, and ends when the acceptor has received the broadcast
and has held, or admitted, the channels that wait there. A producer may be held earlier: an acceptor reads the gauge of
a queue before each publish.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from penstock.memory.records import DELAY_BOUNDS_US


class Delays:
    """A histogram: `counts` by bucket of `DELAY_BOUNDS_US`, the last one of longer delays, and the sum in µs."""

    def __init__(self) -> None:
        self.counts = [0] * (len(DELAY_BOUNDS_US) + 1)
        self.sum_us = 0

    def add(self, delay_us: int) -> None:
        """Count a delay; one below 0, by clocks of different resolution, counts as 0."""
        delay_us = max(delay_us, 0)
        self.counts[bisect_left(DELAY_BOUNDS_US, delay_us)] += 1
        self.sum_us += delay_us

    def words(self) -> list[int]:
        """Return the delays as the gauges have them (`penstock.memory.records.FlowSums`)."""
        return [*self.counts, self.sum_us]


class FlowDelays:
    """The delays of one acceptor. `clock` is the node's, in µs: that of turns counts milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.stop = Delays()
        self.resume = Delays()

    def measure(self, saturated: bool, decided_us: int) -> None:
        """Count the delay of a stop, or of a resume, that was decided at that moment."""
        (self.stop if saturated else self.resume).add(self.clock() - decided_us)
