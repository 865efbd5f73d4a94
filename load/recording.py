"""The recording of a demonstration over time: depth against marks, flow state, counts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

RATE_SECONDS = 0.3
"""Rates are means over this time."""


class Sample(NamedTuple):
    """One sample. `at` is in seconds since the start, depth in messages; `held` says what holds the producer, if
    anything does; `epoch` counts the changes of `saturated`, including those between two samples.
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
    """A period in which the queue was saturated, from stop to resume, with the depths seen at its ends."""

    began: float
    ended: float
    depth_at_stop: int
    depth_at_resume: int


@dataclass(slots=True)
class Recording:
    """Samples in order of time, and the marks of the queue (messages; 0 while unknown)."""

    stop_count: int = 0
    resume_count: int = 0
    samples: list[Sample] = field(default_factory=list)

    @property
    def latest(self) -> Sample:
        """The last sample; `NOTHING` if there is none."""
        return self.samples[-1] if self.samples else NOTHING

    @property
    def deepest(self) -> int:
        """The greatest depth seen."""
        return max((sample.depth for sample in self.samples), default=0)

    @property
    def stops(self) -> int:
        """How often the producers were stopped, including stops too short to be sampled."""
        return (self.latest.epoch - self.samples[0].epoch + 1) // 2 if self.samples else 0

    def saturated_spans(self) -> Iterator[Span]:
        """Yield each period from a stop to its resume. A period in progress ends with the latest sample; a resume
        followed by another stop before the next sample is dated to that sample.
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
        """Return how long something held the producer."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return sum(after.at - before.at for before, after in pairs if before.held)

    def rates(self, at: float | None = None) -> tuple[float, float]:
        """Return messages published and received a second over the `RATE_SECONDS` up to `at` (default: the latest
        sample).
        """
        if not self.samples:
            return 0.0, 0.0
        last = self.latest if at is None else self.samples[min(self._first_from(at), len(self.samples) - 1)]
        first = self.samples[self._first_from(last.at - RATE_SECONDS)]
        seconds = last.at - first.at
        if not seconds:
            return 0.0, 0.0
        return (last.published - first.published) / seconds, (last.received - first.received) / seconds

    def _first_from(self, at: float) -> int:
        """The index of the first sample at that time or later."""
        return bisect_left(self.samples, at, key=lambda sample: sample.at)
