"""Queues."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import attrgetter
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from console.api.bindings import facts as binding_facts
from console.api.bindings import of_queue as bindings_of_queue
from console.api.clients import connection_names, consumer_facts
from console.api.samples import Sampled, Spans
from console.api.situations import consumers_of
from console.api.totals import of_queue
from console.broker import Broker, Facts
from console.flow.overshoot import overshoot
from console.http.access import Called
from console.http.answers import answer
from console.http.caller import Caller
from console.http.errors import not_found
from console.http.listing import Listed, Listing, chosen, listed, listed_with
from console.http.segments import Segment
from penstock.memory.gauges import QueueGauge
from router.model.policies import combined
from router.model.records import Policy, Queue

router = APIRouter(prefix="/api", tags=["queues"])

AT_ONCE = 500


@router.get("/queues")
async def all_queues(caller: Called, wanted: Listed) -> Response:
    """The queues of all vhosts that the user sees."""
    return await _listed(caller, caller.vhosts(), wanted)


@router.get("/queues/{vhost}")
async def queues_of_vhost(caller: Called, vhost: Segment, wanted: Listed) -> Response:
    """The queues of a vhost."""
    caller.must_see(vhost)
    return await _listed(caller, [vhost], wanted)


@router.get("/queues/{vhost}/{name}")
async def one_queue(caller: Called, vhost: Segment, name: Segment, spans: Sampled, wanted: Listed) -> Response:
    """A queue, with its consumers, and the connection that owns it if it is exclusive."""
    queue = _seen(caller, vhost, name)
    broker = caller.broker
    await broker.foreign.refresh()
    hands = await hands_of(broker, queue)
    consumers = [
        {**consumer_facts(broker, each), **hands.get((each["connection"], each["channel"], each["tag"]), {})}
        for each in await broker.ask_acceptors("all_consumers")
        if (each["vhost"], each["queue"]) == (vhost, name)
    ]
    found = {
        **facts(broker, queue, spans),
        "consumer_details": consumers,
        "exclusive_consumer_tag": _tag(consumers, "exclusive", True),
        "single_active_consumer_tag": _tag(consumers, "activity_status", "single_active"),
        "deliveries": [],
        "incoming": [],
    }
    if queue.owner is not None:
        found["owner_pid_details"] = await _owner(broker, queue.owner)
    return answer(chosen(found, wanted.paths))


@router.get("/queues/{vhost}/{name}/bindings")
async def bindings(caller: Called, vhost: Segment, name: Segment, wanted: Listed) -> Response:
    """The bindings of a queue, the implied one to the default exchange included."""
    queue = _seen(caller, vhost, name)
    return listed([binding_facts(each) for each in bindings_of_queue(caller.broker.topology, queue)], wanted)


async def _listed(caller: Caller, vhosts: list[str], wanted: Listing) -> Response:
    broker = caller.broker
    await broker.foreign.refresh()
    queues = (queue for vhost in vhosts for queue in sorted(broker.topology.queues_in(vhost), key=attrgetter("name")))
    rows: list[Facts] = [{"name": queue.name, "queue": queue} for queue in queues]
    return await listed_with(rows, wanted, partial(_with_facts, broker))


async def _with_facts(broker: Broker, rows: list[Facts]) -> list[Facts]:
    """Return the facts of queues, without those that are gone. Between every so many, others are served."""
    found: list[Facts] = []
    for begin in range(0, len(rows), AT_ONCE):
        queues = (row["queue"] for row in rows[begin : begin + AT_ONCE])
        found += [facts(broker, queue) for queue in queues if broker.topology.queue_by_id(queue.queue_id) is not None]
        await asyncio.sleep(0)
    return found


def _seen(caller: Caller, vhost: str, name: str) -> Queue:
    """Return a queue that the user sees. HttpError if there is none."""
    caller.must_see(vhost)
    queue = caller.broker.topology.queue(vhost, name)
    if queue is None:
        raise not_found()
    return queue


async def hands_of(broker: Broker, queue: Queue) -> dict[tuple[str, int, str], Facts]:
    """Return how many messages each consumer of a queue has in hand, and the seconds since its last ack, by connection,
    channel and tag.
    """
    found = await consumers_of(broker, {"shard": queue.shard, "id": queue.queue_id})
    return {
        (each["whose"]["connection"], each["whose"]["channel"], each["whose"]["tag"]): {
            name: each[name] for name in ("in_hand", "settled_seconds")
        }
        for each in found
        if each["whose"] is not None
    }


def _tag(consumers: list[Facts], field: str, value: object) -> str | None:
    """Return the tag of the first consumer whose field has a value; None if there is none."""
    return next((each["consumer_tag"] for each in consumers if each[field] == value), None)


async def _owner(broker: Broker, connection: str) -> Facts:
    owner = next((each for each in await broker.ask_acceptors("connections") if each["connection"] == connection), None)
    return {} if owner is None else connection_names(owner)


def facts(broker: Broker, queue: Queue, spans: Spans | None = None) -> Facts:
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
        "arguments": dict(broker.foreign.all_of(queue)),
        "type": queue.arguments.get("x-queue-type", "classic"),
        "node": broker.name,
        "policy": queue.policy,
        "operator_policy": queue.operator_policy,
        "effective_policy_definition": definition_of(broker, queue),
        "state": "running" if gauge is not None else "down",
    }
    return found if gauge is None else {**found, **_counted(broker, gauge, spans)}


def definition_of(broker: Broker, queue: Queue) -> dict[str, Any]:
    """Return the definition of the policies that govern a queue, merged."""

    def named(name: str | None, *, operator: bool) -> Policy | None:
        return None if name is None else broker.topology.policy(queue.vhost, name, operator=operator)

    return combined(named(queue.policy, operator=False), named(queue.operator_policy, operator=True))


def _counted(broker: Broker, gauge: QueueGauge, spans: Spans | None) -> Facts:
    nbytes = gauge.ready_bytes + gauge.unacked_bytes
    return {
        **of_queue(broker, gauge, spans),
        "message_bytes": nbytes,
        "message_bytes_ready": gauge.ready_bytes,
        "message_bytes_unacknowledged": gauge.unacked_bytes,
        "memory": nbytes,
        "consumers": gauge.consumers,
        "flow": _flow(broker, gauge),
    }


def _flow(broker: Broker, gauge: QueueGauge) -> Facts:
    """Return the state of a queue's flow control: its marks, the bounds that its depth keeps, since when it holds."""
    marks, found = gauge.marks, overshoot(gauge, broker.gauges.acceptors)
    queue = broker.topology.queue_by_id(gauge.queue_id)
    return {
        **marks._asdict(),
        "bound_count": marks.stop_count and marks.stop_count + found["over_count_bound"],
        "bound_bytes": marks.stop_bytes and marks.stop_bytes + found["over_bytes_bound"],
        "saturated": gauge.saturated,
        "saturated_for": round(max(broker.now - gauge.saturated_since_us / 1e6, 0.0), 3) if gauge.saturated else 0.0,
        "spilling": gauge.aside or gauge.lagging,
        "flow_epoch": gauge.flow_epoch,
        "whole_bytes": gauge.whole_bytes,
        "dropped": gauge.counters.dropped,
        "shard": None if queue is None else queue.shard,
    }
