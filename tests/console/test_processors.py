"""The use of processors by processes."""

from __future__ import annotations

from typing import Any, NamedTuple

from console.metrics.reading import Usage
from console.processors import Processors


class Reading(NamedTuple):
    """What is read of a reading."""

    usage: dict[Any, Usage]


def test_it_is_measured_between_two_samples() -> None:
    now = 10.0
    processors = Processors(lambda: now)
    shard, router = ("shard", 0), ("router", 0)
    processors.sample(Reading({shard: Usage(5.0, 1), router: Usage(1.0, 1)}))
    assert processors.percent("shard", 0) is None
    now = 12.0
    processors.sample(Reading({shard: Usage(6.0, 1), ("acceptor", 0): Usage(3.0, 1)}))
    assert processors.percent("shard", 0) == 50.0
    assert processors.percent("router", 0) is None, "it has died"
    assert processors.percent("acceptor", 0) is None, "it has just begun"


def test_a_process_that_began_anew_uses_nothing_yet() -> None:
    now = 0.0
    processors = Processors(lambda: now)
    processors.sample(Reading({("shard", 0): Usage(50.0, 1)}))
    now = 1.0
    processors.sample(Reading({("shard", 0): Usage(0.1, 1)}))
    assert processors.percent("shard", 0) == 0.0
