"""Shards: their load, their memory, and the queues that are moving."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.metrics.reading import Reading
from penstock.memory.gauges import STATE_NAMES

router = APIRouter(prefix="/api", tags=["shards"])


@router.get("/shards")
async def shards(caller: Called) -> Response:
    """The shards, by number."""
    caller.must_monitor()
    broker = caller.broker
    reading = broker.reading()
    queues: dict[int, int] = {}
    for queue in broker.topology.queues():
        queues[queue.shard] = queues.get(queue.shard, 0) + 1
    return answer([_facts(broker, reading, shard, queues.get(shard, 0)) for shard in reading.shards])


@router.get("/rebalance")
async def moves(caller: Called) -> Response:
    """The moves of queues that are under way."""
    caller.must_monitor()
    topology = caller.broker.topology
    found = []
    for move in topology.moves.values():
        queue = topology.queue_by_id(move.queue_id)
        if queue is not None:
            facts = {
                name: getattr(move, name) for name in ("source", "target", "phase", "plan", "since", "count", "size")
            }
            found.append({"vhost": queue.vhost, "name": queue.name, **facts})
    return answer({"placement_version": topology.placement_version, "moves": found})


def _facts(broker: Broker, reading: Reading, shard: int, queues: int) -> Facts:
    process = broker.gauges.process_read("shard", shard)
    usage = reading.usage.get(("shard", shard))
    measures, gate = reading.measures[shard], reading.gates.get(shard)
    kept = broker.topology.shards.get(shard)
    return {
        "shard": shard,
        "state": STATE_NAMES[process.state],
        "placement": None if kept is None else kept.state,
        "pid": process.pid,
        "restarts": process.restarts,
        "queues": queues,
        "cpu_seconds": None if usage is None else round(usage.cpu_seconds, 2),
        "cpu_percent": broker.processors.percent("shard", shard),
        "memory": None if usage is None else usage.memory,
        "contents": 0 if gate is None else gate.ready_bytes,
        "contents_limit": 0 if gate is None else gate.marks.stop_bytes,
        "saturated": gate is not None and gate.saturated,
        "reason": gate.name if gate is not None and gate.saturated else None,
        "stored_bytes": measures.stored_bytes,
        "loop_lag_p50_us": measures.loop_lag_p50_us,
        "loop_lag_p99_us": measures.loop_lag_p99_us,
        "commit_p99_us": measures.commit_p99_us,
    }
