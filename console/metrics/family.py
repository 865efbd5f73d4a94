"""A family of metrics: one name, its kind and labels, and its values in a reading (OpenMetrics 1.0, "MetricFamily")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from console.metrics.reading import Reading
from penstock.memory.gauges import QueueGauge

Sample = tuple[tuple[str, ...], float | Sequence[int]]
"""The values of the labels, in order, and the value; of a histogram, delays as `FlowSums` has them."""
QUEUE = ("vhost", "queue")
"""The labels of a queue."""


class Kind(StrEnum):
    """The kind of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """A family. The name of a counter ends in `_total`, as it is scraped; units are in names: seconds and bytes."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    samples: Callable[[Reading], Iterable[Sample]]


def gauge(name: str, meaning: str, value: Callable[[Reading], float]) -> Family:
    """Return a gauge of the node."""
    return Family(name, Kind.GAUGE, (), meaning, lambda reading: [((), value(reading))])


def of_queues(value: Callable[[QueueGauge], float]) -> Callable[[Reading], Iterator[Sample]]:
    """Return the samples of a family with the labels `QUEUE`."""
    return lambda reading: (((queue.vhost, queue.name), value(queue)) for queue in reading.queues)
