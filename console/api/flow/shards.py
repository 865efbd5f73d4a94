"""The node's processes, and its shards with their load."""

from __future__ import annotations

from collections import Counter

from fastapi import APIRouter
from starlette.responses import Response

from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.metrics.reading import Reading
from penstock.memory.gauges import STATE_NAMES, Process

router = APIRouter(prefix="/api", tags=["shards"])


@router.get("/shards")
async def shards(caller: Called) -> Response:
    """The shards, by number."""
    caller.must_monitor()
    broker = caller.broker
    reading = broker.reading()
    queues = {shard: Counter(queues=0, ready=0, unacked=0) for shard in reading.shards}
    for gauge in broker.sampler.latest():
        queue = broker.topology.queue_by_id(gauge.queue_id)
        if queue is not None and queue.shard in queues:
            queues[queue.shard].update(queues=1, ready=gauge.ready, unacked=gauge.unacked)
    return answer([{**_facts(broker, reading, shard), **queues[shard]} for shard in reading.shards])


@router.get("/certificates")
async def certificates(caller: Called) -> Response:
    """The certificates that are served, of listeners and of HTTP."""
    caller.must_monitor()
    return answer(await caller.broker.certificates())


@router.get("/processes")
async def processes(caller: Called) -> Response:
    """The processes of the node."""
    caller.must_monitor()
    reading = caller.broker.reading()
    return answer([_process(caller.broker, reading, process) for process in reading.processes])


def _process(broker: Broker, reading: Reading, process: Process) -> Facts:
    usage = reading.usage.get((process.role, process.index))
    return {
        "role": process.role,
        "index": process.index,
        "pid": process.pid,
        "state": STATE_NAMES[process.state],
        "restarts": process.restarts,
        "cpu_seconds": None if usage is None else round(usage.cpu_seconds, 2),
        "cpu_percent": broker.processors.percent(process.role, process.index),
        "memory": None if usage is None else usage.memory,
    }


def _facts(broker: Broker, reading: Reading, shard: int) -> Facts:
    measures, gate = reading.measures[shard], reading.gates.get(shard)
    kept = broker.topology.shards.get(shard)
    return {
        **_process(broker, reading, broker.gauges.process_read("shard", shard)),
        "shard": shard,
        "placement": None if kept is None else kept.state,
        "contents": 0 if gate is None else gate.ready_bytes,
        "contents_limit": 0 if gate is None else gate.marks.stop_bytes,
        "saturated": gate is not None and gate.saturated,
        "reason": gate.name if gate is not None and gate.saturated else None,
        "stored_bytes": measures.stored_bytes,
        "loop_lag_p50_us": measures.loop_lag_p50_us,
        "loop_lag_p99_us": measures.loop_lag_p99_us,
        "commit_p99_us": measures.commit_p99_us,
    }
