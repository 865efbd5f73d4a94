"""Which part of a limited rate an acceptor takes: as many channels wait for it there, of all that wait anywhere.

Each writes down in the gauges how much waits, as an octet, and takes what has come since it last did, in that part.
What others leave is for everybody once the bucket is half full. More than eight acceptors take what they find.
"""

from __future__ import annotations

from math import log2

from penstock.memory.gauges import Gauges

MOST_ACCEPTORS = 8
STEPS = 15
"""Of an octet, for each doubling."""

WEIGHTS = [0.0, *(2 ** ((code - 1) / STEPS) for code in range(1, 256))]


def code_of(waiting: int) -> int:
    """So many channels as an octet, to within 3 %."""
    return min(1 + round(STEPS * log2(waiting)), 255) if waiting else 0


class RatePart:
    """Of one rate at the acceptor of that index. `own` is what it may take, of messages and of octets, in nanoseconds
    of the bucket, as of `seen`, which is 0 while nobody waits; below 0 what it has had too much.
    """

    __slots__ = ("gauges", "index", "own", "seen")

    def __init__(self, gauges: Gauges, index: int) -> None:
        self.gauges = gauges
        self.index = index
        self.own = [0, 0]
        self.seen = 0

    def look(self, bucket: int, now: int, waiting: int, free: tuple[int, int], depths: tuple[int, int]) -> None:
        """So much waits here by now; `free` is what is in the bucket, of `depths`, in nanoseconds."""
        code = code_of(waiting)
        octets = self.gauges.bucket_waiting(bucket, now, self.index, code)
        if not code:
            self.seen = 0
            return
        part = WEIGHTS[code] / sum(WEIGHTS[octets >> 8 * at & 255] for at in range(MOST_ACCEPTORS))
        for which, depth in enumerate(depths):
            if self.seen:
                self.own[which] = min(self.own[which] + int(min(now - self.seen, depth) * part), depth)
            else:
                self.own[which] = int(free[which] * part)
        self.seen = now

    def free(self, which: int, free: int, depth: int) -> int:
        """Of what is free in the bucket, what may be taken here."""
        return min(free, max(self.own[which], free - depth // 2)) if self.seen else free

    def spend(self, which: int, nanoseconds: int, depth: int) -> None:
        """So much has gone from here."""
        self.own[which] = max(self.own[which] - nanoseconds, -depth)
