"""The metrics of a reading as text, as Prometheus scrapes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from console.metrics import own, rabbitmq
from console.metrics.family import Family, Kind
from console.metrics.reading import Reading
from penstock.memory.records import DELAY_BOUNDS_US
from penstock.text.utf8 import readable

BOUNDS = (*(str(bound / 1e6) for bound in DELAY_BOUNDS_US), "+Inf")
MADE: dict[Kind, Callable[..., GaugeMetricFamily | CounterMetricFamily]] = {
    Kind.GAUGE: GaugeMetricFamily,
    Kind.COUNTER: CounterMetricFamily,
}


class Chosen(Enum):
    """The families of a scrape: of the node alone, of the node and each queue, of each queue alone."""

    NODE = "node"
    ALL = "all"
    QUEUES = "queues"


def families(chosen: Chosen) -> list[Family]:
    """Return the families of a scrape."""
    of_queues = (*rabbitmq.OF_QUEUES, *own.OF_QUEUES) if chosen is not Chosen.NODE else ()
    if chosen is Chosen.QUEUES:
        return list(of_queues)
    replaced = {family.name for family in of_queues}
    of_node = [family for family in (*rabbitmq.FAMILIES, *own.FAMILIES) if family.name not in replaced]
    return [*of_node, *of_queues]


def text(reading: Reading, chosen: Chosen = Chosen.NODE, *, openmetrics: bool = False) -> bytes:
    """Return all metrics in Prometheus' text format 0.0.4, or as OpenMetrics 1.0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(reading, families(chosen)))
    return generate_openmetrics(registry) if openmetrics else generate_latest(registry)  # type: ignore[no-untyped-call]


class _Families(Collector):
    def __init__(self, reading: Reading, chosen: list[Family]) -> None:
        self._reading = reading
        self._chosen = chosen

    def collect(self) -> Iterator[Metric]:
        for family in self._chosen:
            yield _histogram(family, self._reading) if family.kind is Kind.HISTOGRAM else _metric(family, self._reading)


def _metric(family: Family, reading: Reading) -> Metric:
    metric = MADE[family.kind](family.name, family.meaning, labels=family.labels)
    for labels, value in family.samples(reading):
        assert not isinstance(value, Sequence)
        metric.add_metric(readable(list(labels)), float(value))
    return metric


def _histogram(family: Family, reading: Reading) -> Metric:
    metric = HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, delays in family.samples(reading):
        assert isinstance(delays, Sequence)
        *counts, sum_us = delays
        buckets = list(zip(BOUNDS, accumulate(counts), strict=True))
        metric.add_metric(readable(list(labels)), buckets, sum_us / 1e6)
    return metric
