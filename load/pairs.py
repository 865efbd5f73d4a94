"""Comparison of two brokers pair by pair: the median ratio of runs made one after the other, and its confidence
interval.

A shared machine drifts; the two runs of a pair meet nearly the same conditions, so little of the drift is left in their
ratio. The interval is that of the sign test: the true median lies between the k-th smallest and the k-th largest ratio
with a probability that depends only on the number of ratios, not on their distribution (Conover, Practical
Nonparametric Statistics, 3.2).
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
    """The median of the ratios B/A; the true one lies between `low` and `high` with 95 % confidence. Both are None if
    there are too few pairs.
    """

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
    """Return which ratio, counted from each end, bounds the interval; 0 if even all ratios do not reach the
    confidence.
    """
    outside, at = 0.0, 0
    while at < count // 2:
        outside += 2 * comb(count, at) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        at += 1
    return at


def compare(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Compare the figures of runs in turn; None unless all of A's are above 0."""
    if not a or min(a) <= 0:
        return None
    ratios = sorted(there / here for here, there in zip(a, b, strict=True))
    at = rank(len(ratios))
    low, high = (ratios[at - 1], ratios[-at]) if at else (None, None)
    return Ratio(statistics.median(ratios), low, high, len(ratios))
