"""What a demonstration saw, as values over time: depth against marks, flow state, counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RATE_SECONDS = 0.5
"""Rates are means over so long."""


class Sample(NamedTuple):
    """One look. `at` is in seconds since the start; depth in messages; `held` says what holds the producer, if any."""

    at: float
    depth: int
    saturated: bool
    published: int
    received: int
    held: str


class Span(NamedTuple):
    """A time in which the queue was saturated: from stop to resume, with the depths seen there."""

    began: float
    ended: float
    depth_at_stop: int
    depth_at_resume: int


@dataclass(slots=True)
class Recording:
    """Samples in order of time, and the marks of the queue (messages; 0 while they are not known)."""

    stop_count: int = 0
    resume_count: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def latest(self) -> Sample:
        return self.samples[-1] if self.samples else Sample(0.0, 0, False, 0, 0, "")

    @property
    def deepest(self) -> int:
        return max((sample.depth for sample in self.samples), default=0)

    def saturated_spans(self) -> Iterator[Span]:
        """Each time from a stop to its resume; one that lasts is taken to end with the latest sample."""
        began: Sample | None = None
        for sample in self.samples:
            if sample.saturated and began is None:
                began = sample
            elif began is not None and not sample.saturated:
                yield Span(began.at, sample.at, began.depth, sample.depth)
                began = None
        if began is not None:
            yield Span(began.at, self.latest.at, began.depth, self.latest.depth)

    def held_seconds(self) -> float:
        """How long something kept the producer from publishing."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(after.at - before.at for before, after in pairs if before.held)

    def rates(self, at: float | None = None) -> tuple[float, float]:
        """Messages a second, published and received, over half a second up to `at` (default: up to now)."""
        if not self.samples:
            return 0.0, 0.0
        last = self.latest if at is None else self.samples[min(self._first_from(at), len(self.samples) - 1)]
        first = self.samples[self._first_from(last.at - RATE_SECONDS)]
        seconds = last.at - first.at
        if not seconds:
            return 0.0, 0.0
        return (last.published - first.published) / seconds, (last.received - first.received) / seconds

    def _first_from(self, at: float) -> int:
        """Index of the first sample at that time or later."""
        return bisect_left(self.samples, at, key=lambda sample: sample.at)
