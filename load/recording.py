"""What a demonstration saw, as values over time: depth against marks, flow state, counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RATE_SECONDS = 0.3
"""Rates are means over so long."""


class Sample(NamedTuple):
    """One look. `at` is in seconds since the start; depth in messages; `held` says what holds the producer, if any;
    `epoch` counts the changes of `saturated`, also those between two looks.
    """

    at: float
    depth: int
    saturated: bool
    published: int
    received: int
    held: str
    epoch: int


NOTHING = Sample(0.0, 0, False, 0, 0, "", 0)


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
        return self.samples[-1] if self.samples else NOTHING

    @property
    def deepest(self) -> int:
        return max((sample.depth for sample in self.samples), default=0)

    @property
    def stops(self) -> int:
        """How often the producers were stopped, those too short to be seen included."""
        return (self.latest.epoch - self.samples[0].epoch + 1) // 2 if self.samples else 0

    def saturated_spans(self) -> Iterator[Span]:
        """Each time from a stop to its resume; one that lasts is taken to end with the latest sample, and of a resume
        that was over before it was looked at only the next stop is known.
        """
        began: Sample | None = None
        for sample in self.samples:
            if began is not None and sample.epoch != began.epoch:
                yield Span(began.at, sample.at, began.depth, sample.depth)
                began = None
            if began is None and sample.saturated:
                began = sample
        if began is not None:
            yield Span(began.at, self.latest.at, began.depth, self.latest.depth)

    def held_seconds(self) -> float:
        """How long something kept the producer from publishing."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(after.at - before.at for before, after in pairs if before.held)

    def rates(self, at: float | None = None) -> tuple[float, float]:
        """Messages a second, published and received, over the `RATE_SECONDS` up to `at` (default: up to now)."""
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
