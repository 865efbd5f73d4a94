"""Two brokers compared pair by pair: the median of the ratios of runs made one after the other, and its interval.

A shared machine drifts; the two runs of a pair meet it in nearly the same state, so their ratio keeps little of the
drift. The interval is that of the sign test: between the k-th smallest and the k-th largest ratio lies the median of
all ratios that could have been measured, with a probability that depends on their number only, not on how they are
distributed (Conover, Practical Nonparametric Statistics, 3.2).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of ratios B/A; `low` to `high` has the true one with 95 %, None where there are too few pairs."""

    median: float
    low: float | None
    high: float | None
    pairs: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rank(count: int) -> int:
    """How many ratios lie outside the interval at each end, plus one; 0 where the interval has to be all there is."""
    outside, at = 0.0, 0
    while at < count // 2:
        outside += 2 * comb(count, at) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        at += 1
    return at


def compared(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Figures of runs in turn; None if A's are not all above 0."""
    if not a or min(a) <= 0:
        return None
    ratios = sorted(there / here for here, there in zip(a, b, strict=True))
    at = rank(len(ratios))
    low, high = (ratios[at - 1], ratios[-at]) if at else (None, None)
    return Ratio(statistics.median(ratios), low, high, len(ratios))
