"""Families with the names of RabbitMQ's exporter (rabbitmq_prometheus), where they mean the same: its dashboards show
something true.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from console.metrics.family import QUEUE, Family, Kind, gauge, of_queues
from console.metrics.reading import Reading
from penstock import __version__
from penstock.memory.gauges import QueueGauge
from penstock.process.node_memory import NodeMemory

PROTOCOL = ("protocol",)


def _sum_of_counters(field: str) -> Callable[[Reading], float]:
    return lambda reading: sum(getattr(each, field) for each in reading.counters.values())


def _sum_of_queues(value: Callable[[QueueGauge], float]) -> Callable[[Reading], float]:
    return lambda reading: sum(map(value, reading.queues))


def _messages(queue: QueueGauge) -> int:
    return queue.ready + queue.unacked


def _bytes(queue: QueueGauge) -> int:
    return queue.ready_bytes + queue.unacked_bytes


def _global(name: str, meaning: str, field: str) -> Family:
    value = _sum_of_counters(field)
    return Family(name, Kind.COUNTER, PROTOCOL, meaning, lambda reading: [(("amqp091",), value(reading))])


_QUEUES: tuple[tuple[str, str, Callable[[QueueGauge], float]], ...] = (
    ("rabbitmq_queue_messages_ready", "messages that wait for a consumer", attrgetter("ready")),
    ("rabbitmq_queue_messages_unacked", "messages delivered and not acknowledged", attrgetter("unacked")),
    ("rabbitmq_queue_messages", "messages ready and unacked", _messages),
    ("rabbitmq_queue_messages_ready_bytes", "bodies of messages that wait for a consumer", attrgetter("ready_bytes")),
    ("rabbitmq_queue_messages_unacked_bytes", "bodies of messages not acknowledged", attrgetter("unacked_bytes")),
    ("rabbitmq_queue_messages_bytes", "bodies of messages ready and unacked", _bytes),
)

FAMILIES = (
    Family(
        "rabbitmq_build_info", Kind.GAUGE, ("product_name", "product_version"), "the broker; 1",
        lambda _: [(("penstock", __version__), 1)],
    ),
    Family(
        "rabbitmq_identity_info", Kind.GAUGE, ("rabbitmq_node", "rabbitmq_cluster"), "the node; 1",
        lambda reading: [((reading.node, reading.node), 1)],
    ),
    gauge("rabbitmq_connections", "open connections", _sum_of_counters("connections")),
    gauge("rabbitmq_channels", "open channels", _sum_of_counters("channels")),
    gauge("rabbitmq_queues", "queues", lambda reading: len(reading.queues)),
    gauge("rabbitmq_consumers", "consumers", _sum_of_queues(attrgetter("consumers"))),
    *(gauge(name, meaning, _sum_of_queues(value)) for name, meaning, value in _QUEUES),
    _global("rabbitmq_global_messages_received_total", "messages accepted from producers", "published"),
    _global("rabbitmq_global_messages_confirmed_total", "messages confirmed to producers", "confirmed"),
    _global("rabbitmq_global_messages_delivered_total", "messages delivered to consumers", "delivered"),
    gauge(
        "rabbitmq_process_resident_memory_bytes", "private memory of all processes of the node",
        lambda reading: NodeMemory(reading.gauges).measure(),
    ),
    gauge(
        "rabbitmq_resident_memory_limit_bytes", "`memory.process_limit`",
        lambda reading: reading.settings["memory"]["process_limit"],
    ),
    gauge("rabbitmq_disk_space_available_bytes", "free where messages are stored", attrgetter("disk_free")),
)  # fmt: skip
"""Of the node."""

OF_QUEUES = (
    *(Family(name, Kind.GAUGE, QUEUE, meaning, of_queues(value)) for name, meaning, value in _QUEUES),
    Family("rabbitmq_queue_consumers", Kind.GAUGE, QUEUE, "consumers", of_queues(attrgetter("consumers"))),
)
"""Of each queue: those of the node that have the same names are their sums, and take their place."""
