"""Queues."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from fastapi import APIRouter
from starlette.responses import Response

from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import not_found
from console.http.listing import Listed, listed
from console.http.segments import Segment
from penstock.memory.gauges import QueueGauge
from router.model.records import Queue

router = APIRouter(prefix="/api", tags=["queues"])

COUNTS: dict[str, Callable[[QueueGauge], int]] = {
    "publish": attrgetter("counters.published"),
    "deliver_get": attrgetter("counters.delivered"),
    "ack": attrgetter("counters.acked"),
    "redeliver": attrgetter("counters.redelivered"),
}
"""The counts of a queue by RabbitMQ's names."""


@router.get("/queues")
async def all_queues(caller: Called, wanted: Listed) -> Response:
    """The queues of all vhosts that the user sees."""
    broker = caller.broker
    return listed([facts(broker, queue) for queue in broker.topology.queues() if caller.sees(queue.vhost)], wanted)


@router.get("/queues/{vhost}")
async def queues_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The queues of a vhost."""
    caller.must_see(vhost)
    broker = caller.broker
    return listed([facts(broker, queue) for queue in broker.topology.queues_in(vhost)], wanted)


@router.get("/queues/{vhost}/{name}")
async def one_queue(caller: Called, vhost: Segment, name: Segment) -> Response:
    """A queue."""
    caller.must_see(vhost)
    queue = caller.broker.topology.queue(vhost, name)
    if queue is None:
        raise not_found()
    return answer(facts(caller.broker, queue))


def facts(broker: Broker, queue: Queue) -> Facts:
    """Return a queue as RabbitMQ's management shows it, and under "flow" its marks and state."""
    gauge = broker.gauges.queue_read(queue.slot)
    if gauge is not None and gauge.queue_id != queue.queue_id:
        gauge = None
    found: Facts = {
        "vhost": queue.vhost,
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": dict(queue.arguments),
        "type": "classic",
        "node": f"penstock@{broker.node.telemetry_name}",
        "policy": queue.policy,
        "operator_policy": queue.operator_policy,
        "state": "running" if gauge is not None else "down",
    }
    return found if gauge is None else {**found, **_counted(broker, gauge)}


def _counted(broker: Broker, gauge: QueueGauge) -> Facts:
    stats: Facts = {}
    for name, count in COUNTS.items():
        stats[name] = count(gauge)
        stats[f"{name}_details"] = {"rate": broker.sampler.rate(gauge.queue_id, count)}
    marks = gauge.marks
    return {
        "messages": gauge.ready + gauge.unacked,
        "messages_ready": gauge.ready,
        "messages_unacknowledged": gauge.unacked,
        "message_bytes": gauge.ready_bytes + gauge.unacked_bytes,
        "message_bytes_ready": gauge.ready_bytes,
        "message_bytes_unacknowledged": gauge.unacked_bytes,
        "memory": gauge.ready_bytes + gauge.unacked_bytes,
        "consumers": gauge.consumers,
        "message_stats": stats,
        "flow": {**marks._asdict(), "saturated": gauge.saturated, "flow_epoch": gauge.flow_epoch},
    }
