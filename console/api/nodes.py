"""Nodes: this one, as the cluster that it is."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from console.api.alarms import in_alarm
from console.api.counted import churn, sums
from console.api.overview import exchange_types
from console.api.serving import contexts
from console.broker import Broker, Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.errors import not_found
from console.http.listing import Listed, chosen, listed
from console.http.segments import Segment
from console.metrics.reading import Reading
from penstock.memory.gauges import READY, Process

router = APIRouter(prefix="/api", tags=["nodes"])

PIDS_MOST = Path("/proc/sys/kernel/pid_max")
MECHANISMS = {
    "PLAIN": "user and password",
    "AMQPLAIN": "user and password, in a table",
    "EXTERNAL": "the certificate of the client",
}


@router.get("/nodes")
async def nodes(caller: Called, wanted: Listed) -> Response:
    """The nodes of the cluster: one."""
    caller.must_monitor()
    return listed([await facts(caller.broker)], wanted)


@router.get("/nodes/{name}")
async def node(caller: Called, name: Segment, wanted: Listed) -> Response:
    """The node."""
    caller.must_monitor()
    if name != caller.broker.name:
        raise not_found()
    return answer(chosen(await facts(caller.broker), wanted.paths))


@router.get("/nodes/{name}/memory")
async def memory(caller: Called, name: Segment) -> Response:
    """The private memory of the node's processes, in bytes."""
    caller.must_monitor()
    if name != caller.broker.name:
        raise not_found()
    usage = (await run_in_threadpool(lambda: caller.broker.reading().usage)).items()
    found = {f"{role}_{index}": use.memory for (role, index), use in usage}
    total = sum(found.values())
    return answer({"memory": {**found, "total": {"rss": total, "allocated": total}, "strategy": "rss"}})


async def facts(broker: Broker) -> Facts:
    """Return the node as RabbitMQ's management shows it."""
    reading = broker.reading()
    measured = await run_in_threadpool(_measured, broker, reading)
    node, gauges, settings = broker.node, broker.gauges, broker.node.settings
    supervisor = gauges.process_read("supervisor", 0)
    memory, store = in_alarm(broker)
    return {
        **churn(broker, await sums(broker)),
        "name": broker.name,
        "type": "disc",
        "running": all(process.state == READY for process in reading.processes if process.role != "supervisor"),
        "os_pid": str(supervisor.pid),
        "uptime": max(int((broker.now * 1e6 - node.epoch) / 1000), 0),
        "processors": psutil.cpu_count(),
        "rates_mode": "basic",
        "mem_limit": settings.memory.process_limit or psutil.virtual_memory().total,
        "mem_alarm": memory,
        "mem_calculation_strategy": "rss",
        "disk_free": reading.disk_free,
        "disk_free_limit": 0,
        "disk_free_alarm": store,
        "sockets_used": sum(each.connections for each in reading.counters.values()),
        "partitions": [],
        "cluster_links": [],
        "net_ticktime": 0,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": name, "description": meaning, "enabled": True} for name, meaning in MECHANISMS.items()
        ],
        "applications": [],
        "contexts": contexts(node),
        "log_files": [],
        "config_files": [],
        "enabled_plugins": [],
        "db_dir": str(settings.data),
        **measured,
    }


def _measured(broker: Broker, reading: Reading) -> Facts:
    """Return the use of the machine by the node's processes; it takes a while."""
    files = sockets = most = 0
    for process in reading.processes:
        for used, limit in _files(process):
            files, most = files + used, most + limit
            sockets += limit if process.role == "acceptor" else 0
    found: dict[str, Any] = {
        "mem_used": broker.memory.measure(),
        "fd_used": files,
        "fd_total": most,
        "sockets_total": sockets,
        "proc_used": sum(process.pid > 0 for process in reading.processes),
        "proc_total": int(PIDS_MOST.read_text()),
    }
    return found


def _files(process: Process) -> Iterator[tuple[int, int]]:
    """Yield the open files of a process and their limit; nothing if it has died."""
    with suppress(psutil.Error, OSError):
        if process.pid:
            yield psutil.Process(process.pid).num_fds(), resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0]
