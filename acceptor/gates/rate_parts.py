"""An acceptor's part of a limited rate: the proportion of all waiting channels that wait there.

Each acceptor writes the number of its waiting channels into the gauges, coded as one byte, and receives that part of
the tokens that have come since it did so last. Tokens that others leave are free for all once the bucket is half full.
With more than eight acceptors each uses the tokens that it finds.
"""

from __future__ import annotations

from math import log2

from penstock.memory.gauges import Gauges

MOST_ACCEPTORS = 8
STEPS = 15
"""Steps of the code for each doubling of the number of channels."""

WEIGHTS = [0.0, *(2 ** ((code - 1) / STEPS) for code in range(1, 256))]


def code_of(waiting: int) -> int:
    """Code a number of channels as one byte, to within 3 %."""
    return min(1 + round(STEPS * log2(waiting)), 255) if waiting else 0


class RatePart:
    """One acceptor's part of one rate. `own` is how much of the buckets of messages and bytes it may use as of `seen`,
    in nanoseconds; below 0 it has used too much. `seen` is 0 while no channel waits.
    """

    __slots__ = ("gauges", "index", "own", "seen")

    def __init__(self, gauges: Gauges, index: int) -> None:
        self.gauges = gauges
        self.index = index
        self.own = [0, 0]
        self.seen = 0

    def update(self, bucket: int, now: int, waiting: int, free: tuple[int, int], depths: tuple[int, int]) -> None:
        """Report that `waiting` channels wait here, and add to `own`. `free` are the fills of the buckets, and `depths`
        their depths, in nanoseconds.
        """
        code = code_of(waiting)
        nbytes = self.gauges.bucket_waiting(bucket, now, self.index, code)
        if not code:
            self.seen = 0
            return
        part = WEIGHTS[code] / sum(WEIGHTS[nbytes >> 8 * at & 255] for at in range(MOST_ACCEPTORS))
        for which, depth in enumerate(depths):
            if self.seen:
                self.own[which] = min(self.own[which] + int(min(now - self.seen, depth) * part), depth)
            else:
                self.own[which] = int(free[which] * part)
        self.seen = now

    def free(self, which: int, free: int, depth: int) -> int:
        """Return how much of the free part of a bucket may be used here, in nanoseconds."""
        return min(free, max(self.own[which], free - depth // 2)) if self.seen else free

    def spend(self, which: int, nanoseconds: int, depth: int) -> None:
        """Charge published messages or bytes, in nanoseconds of the bucket."""
        self.own[which] = max(self.own[which] - nanoseconds, -depth)
