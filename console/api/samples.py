"""Rates and samples, as RabbitMQ's management gives them beside a number: `publish` has `publish_details`.

    {"rate": 12.0, "samples": [{"sample": 340, "timestamp": 1796034890000}, …], "avg_rate": 11.5, "avg": 297.5}

Samples, the latest first, are given if a client asks for them:

    ?lengths_age=60&lengths_incr=5       of the numbers of messages, for the last 60 seconds, every 5 seconds
    ?msg_rates_age=60&msg_rates_incr=5   of the counts of messages

They reach back a day at most (`console.course`); those of a queue begin when somebody first asks for them.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from console.broker import Facts
from console.course import Sample
from console.sampler import RECENT_SECONDS

Number = Callable[[Sample], int]

AGE_MOST = 86_400
SAMPLES_MOST = 1440
Seconds = Annotated[int | None, Query(ge=1, le=AGE_MOST)]


@dataclass(frozen=True, slots=True)
class Span:
    """The last `age` seconds, in steps of `step` seconds."""

    age: int
    step: int

    @classmethod
    def of(cls, age: int | None, step: int | None) -> Span | None:
        """Return the span that a client asks for, cut to as many samples as are kept; None if it asks for none."""
        return None if age is None or step is None else cls(min(age, SAMPLES_MOST * step), step)


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that a client asks for: of numbers of messages, and of counts."""

    lengths: Span | None
    counts: Span | None


def _spans(
    lengths_age: Seconds = None,
    lengths_incr: Seconds = None,
    msg_rates_age: Seconds = None,
    msg_rates_incr: Seconds = None,
) -> Spans:
    return Spans(Span.of(lengths_age, lengths_incr), Span.of(msg_rates_age, msg_rates_incr))


Sampled = Annotated[Spans, Depends(_spans)]


def rate(course: Sequence[Sample], number: Number) -> float:
    """Return by how much a number has changed a second, over the last samples of a course."""
    if len(course) < 2:
        return 0.0
    last = course[-1]
    begin = next(sample for sample in course if sample.at >= last.at - RECENT_SECONDS)
    seconds = last.at - begin.at
    return (number(last) - number(begin)) / seconds if seconds > 0 else 0.0


def detailed(name: str, value: int, rate: float, course: Sequence[Sample], number: Number, span: Span | None) -> Facts:
    """Return a number and its details, with samples of a course if a span is asked for."""
    details: Facts = {"rate": rate}
    if span is not None:
        found = samples(course, number, span, time.monotonic(), time.time())
        values = [each["sample"] for each in found]
        seconds = span.step * (len(values) - 1)
        details |= {
            "samples": found,
            "avg_rate": (values[0] - values[-1]) / seconds if seconds > 0 else 0.0,
            "avg": sum(values) / len(values) if values else 0.0,
        }
    return {name: value, f"{name}_details": details}


def samples(course: Sequence[Sample], number: Number, span: Span, now: float, wall: float) -> list[dict[str, int]]:
    """Return the samples of a span, the latest first, as far as the course reaches back. `now` is by the clock of the
    course, `wall` the same moment in seconds since 1970.
    """
    times = [sample.at for sample in course]
    newest = wall - wall % span.step
    found = []
    for back in range(span.age // span.step + 1):
        moment = newest - back * span.step
        index = bisect_right(times, now - (wall - moment)) - 1
        if index < 0:
            break
        found.append({"sample": number(course[index]), "timestamp": int(moment) * 1000})
    return found
