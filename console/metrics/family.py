"""A family of metrics: one name, its kind and labels, and its values in a reading (OpenMetrics 1.0, "MetricFamily")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from console.metrics.reading import Reading

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, in order, and the value."""


class Kind(StrEnum):
    """The kind of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"


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
