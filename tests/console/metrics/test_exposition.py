"""The metrics as text, of gauges written here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from console.metrics.exposition import Chosen, families, text
from console.metrics.family import Kind
from console.metrics.reading import Reading
from penstock.memory.gauges import READY, Gauges

HOSTILE = 'a"b\\c\nd'
SETTINGS = {"data": "/", "memory": {"process_limit": 1000}}
Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    """Return gauges of two acceptors and a shard with two queues, one of them saturated."""
    epoch = int(time.time() * 1e6)
    with Gauges.create(tmp_path / "gauges", epoch=epoch, acceptors=2, shards=1, queues=8, pid=os.getpid()) as gauges:
        gauges.process_write("shard", 0, pid=os.getpid(), incarnation=1, state=READY, started_us=epoch, restarts=3)
        gauges.queue_open(1, 11, "/", "orders", epoch)
        gauges.queue_write(1, 5, 2, 50, 20, 9, 4, 2, 1, 0, 3, 1, 1, epoch, 6, 4, 0, 0, published_bytes=90)
        gauges.queue_write_over(1, 1, 0)
        gauges.queue_open(2, 12, "eu", HOSTILE, epoch)
        gauges.queue_write(2, 1, 0, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, epoch, 0, 0, 0, 0)
        yield gauges


def values(found: bytes, parser: Any = parse) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parser(found.decode())
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_the_node_has_the_sums_of_its_queues(gauges: Gauges) -> None:
    found = values(text(Reading(gauges, SETTINGS)))
    assert found[of("rabbitmq_queues")] == 2
    assert found[of("rabbitmq_queue_messages_ready")] == 6
    assert found[of("rabbitmq_queue_messages")] == 8
    assert found[of("rabbitmq_queue_messages_bytes")] == 80
    assert found[of("rabbitmq_consumers")] == 3
    assert found[of("penstock_flow_saturated_queues")] == 1
    assert found[of("penstock_process_restarts_total", role="shard", index="0")] == 3
    assert found[of("penstock_process_up", role="shard", index="0")] == 1
    assert found[of("penstock_flow_rungs_total", acceptor="1", rung="hold-off")] == 0
    assert not any(name.startswith("penstock_queue") for name, _ in found)


def test_delays_are_a_histogram(gauges: Gauges) -> None:
    stops = [3, 1, *[0] * 12, 2, 12_500_000]
    gauges.flow_write("acceptor", 1, [1_500_000, *[0] * 5, 250_000], 77, stops, [0] * 16)
    found = values(text(Reading(gauges, SETTINGS)))
    name = "penstock_flow_stop_latency_seconds"
    assert found[of(f"{name}_bucket", acceptor="1", le="0.0001")] == 3
    assert found[of(f"{name}_bucket", acceptor="1", le="5.0")] == 4
    assert found[of(f"{name}_bucket", acceptor="1", le="+Inf")] == found[of(f"{name}_count", acceptor="1")] == 6
    assert found[of(f"{name}_sum", acceptor="1")] == 12.5
    assert found[of("penstock_flow_resume_latency_seconds_count", acceptor="0")] == 0
    assert found[of("penstock_flow_held_seconds_total", acceptor="1", cause="queue")] == 1.5
    assert found[of("penstock_flow_held_seconds_total", acceptor="1", cause="rebalance")] == 0.25
    assert found[of("penstock_flow_charged_bytes", acceptor="1", kind="unread_or_unfinished")] == 77


def test_each_queue_has_its_own(gauges: Gauges) -> None:
    found = values(text(Reading(gauges, SETTINGS), Chosen.ALL))
    orders = {"vhost": "/", "queue": "orders"}
    assert found[of("rabbitmq_queue_messages_ready", **orders)] == 5
    assert found[of("rabbitmq_queue_messages_ready", vhost="eu", queue=HOSTILE)] == 1
    assert of("rabbitmq_queue_messages_ready") not in found, "a sum and its parts would count twice"
    assert found[of("penstock_queue_saturated", **orders)] == 1
    assert found[of("penstock_queue_mark_messages", **orders, mark="stop")] == 6
    assert found[of("penstock_queue_mark_messages", **orders, mark="resume")] == 4
    assert of("penstock_queue_mark_messages", vhost="eu", queue=HOSTILE, mark="stop") not in found
    overshoot = of("penstock_queue_overshoot_messages", **orders)
    assert found[overshoot] == 1 <= found[of("penstock_queue_overshoot_bound_messages", **orders)]
    assert found[of("penstock_queue_published_bytes_total", **orders)] == 90


def test_openmetrics_says_the_same(gauges: Gauges) -> None:
    reading = Reading(gauges, SETTINGS)
    plain = values(text(reading, Chosen.ALL))
    openmetrics = values(text(reading, Chosen.ALL, openmetrics=True), parse_openmetrics)
    assert plain.keys() == openmetrics.keys()
    assert plain[of("rabbitmq_queue_messages_ready", vhost="eu", queue=HOSTILE)] == 1


@pytest.mark.parametrize("chosen", Chosen)
def test_names_are_as_prometheus_wants_them(chosen: Chosen) -> None:
    found = families(chosen)
    assert len({family.name for family in found}) == len(found)
    for family in found:
        assert family.name.startswith(("rabbitmq_", "penstock_"))
        assert (family.kind is Kind.COUNTER) == family.name.endswith("_total"), family.name
