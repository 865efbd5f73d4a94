"""The target depth of a paced queue: a fixed number of messages, or as many as leave the queue in a given time.

    depth below the target ──▶ the difference is admitted ──▶ each message that leaves admits another

Admitting one message for each that leaves keeps the work in process constant (CONWIP: Spearman, Woodruff and Hopp,
1990): the depth stays at the target whatever the drain rate, since there is no rate to get wrong. Where the target is a
waiting time, Little's law gives the depth: drain rate x waiting time. The drain rate is measured while producers wait
and smoothed exponentially. Unacked messages count towards the depth, so the target may be too low for consumers to make
progress, for example if they acknowledge in batches. While nothing is ready and nothing leaves for as long as the
waiting time, the target therefore grows by a quarter each time; it shrinks back slowly.
"""

from __future__ import annotations

FIRST_TARGET = 64
# Shortest sample of the drain rate, and the time constant of its smoothing, seconds.
SAMPLE_SECONDS = 0.05
SMOOTHING_SECONDS = 0.5
# A longer pause between two observations discards the sample.
STALE_SECONDS = 1.0
GROWTH, RETURN = 1.25, 0.97
GAIN_MAX = 1024.0


class Pacing:
    """The target of one queue: `depth` messages, a waiting time of `wait` seconds, or the smaller of both."""

    __slots__ = ("depth", "drained", "gain", "moved_at", "observed_at", "rate", "since", "wait")

    def __init__(self, depth: int | None, wait: float | None) -> None:
        self.depth = depth
        self.wait = wait
        self.rate: float | None = None
        self.gain = 1.0
        self.drained = 0
        self.since = self.observed_at = self.moved_at = -STALE_SECONDS

    def adopt(self, depth: int | None, wait: float | None) -> None:
        """Adopt the targets of a changed policy."""
        self.depth, self.wait = depth, wait

    @property
    def target(self) -> int:
        """Messages, ready and unacked; at least 1."""
        depth = self.depth
        if self.wait is not None:
            leaves = FIRST_TARGET if self.rate is None else self.gain * max(self.rate * self.wait, 1)
            depth = int(leaves) if depth is None else min(int(leaves), depth)
        return max(depth or 1, 1)

    def observe(self, now: float, drained: int, ready: int) -> None:
        """Update the drain rate while producers wait. `now`: seconds; `drained`: how many messages have left the queue,
        for whatever reason, since it was made; `ready`: messages ready for delivery.
        """
        stale = now - self.observed_at > STALE_SECONDS
        self.observed_at = now
        if stale or drained < self.drained:
            self.since = self.moved_at = now
            self.drained = drained
            return
        elapsed = now - self.since
        if elapsed < SAMPLE_SECONDS:
            return
        rate = (drained - self.drained) / elapsed
        if self.rate is None:
            self.rate = rate
        else:
            self.rate += (rate - self.rate) * min(elapsed / SMOOTHING_SECONDS, 1.0)
        if drained > self.drained:
            self.moved_at = now
            self.gain = max(self.gain * RETURN, 1.0)
        elif not ready and now - self.moved_at > (self.wait or 0.0):
            self.moved_at = now
            self.gain = min(self.gain * GROWTH, GAIN_MAX)
        self.since, self.drained = now, drained
