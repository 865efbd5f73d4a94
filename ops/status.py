"""The status of a node, read from its shared memory; `ops.status_tables` prints it.

No process of the node is asked, so this works while processes are busy, stuck or dead.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from console.flow.overshoot import overshoot
from console.flow.rates import rates
from ops.claim import Pointer, is_claimed
from ops.listeners import described, http_ports, listeners
from ops.near_limits import near_limits
from ops.port import show as show_address
from ops.running import Running
from penstock.memory.gauges import READY, STARTING, STATE_NAMES, UNSTARTED, Gauges, Process, QueueGauge
from penstock.node import clock
from penstock.node.runtime_paths import UNNEEDED, Role
from penstock.process.node_memory import NodeMemory
from penstock.process.silence import SILENT_SECONDS, silence
from penstock.text.durations import shown

CPU_SECONDS = 0.2
"""How long processes are watched to measure their CPU use."""

Facts = dict[str, Any]


class NotRunning(Exception):
    """No node runs on the data directory; the text says so in one line."""


@dataclass(frozen=True, slots=True)
class Status:
    """A snapshot of a node: plain values, as `--json` prints them. Times in seconds, sizes in bytes."""

    node: Facts
    limits: list[Facts]
    processes: list[Facts]
    queues: list[Facts]


def address_of(data: Path) -> str:
    """Return where the node on `data` serves, in words. NotRunning, with the reason, if it does not."""
    status = collect(data, measured=False)
    if (reason := why_not_ready(status, UNNEEDED)) is not None:
        raise NotRunning(reason)
    return described(status.node["listeners"][0])


def why_not_ready(status: Status, without: Container[str] = ()) -> str | None:
    """Return the first process that is not ready or not alive, in words; None if all are. Those of the roles in
    `without` are not looked at.
    """
    for facts in status.processes:
        if facts["role"] in without:
            continue
        name = f"{facts['role']} {facts['index']}"
        if facts["state"] != STATE_NAMES[READY]:
            return f"{name} is {facts['state']}"
        if facts["silent"] >= SILENT_SECONDS:
            return _silent(name, facts)
    return None


def supervisor_of(data: Path) -> int:
    """Return the pid of the supervisor of the node on `data`. NotRunning if there is none, or if it does not respond.
    The other processes may be starting, or dead: the supervisor replaces them.
    """
    with opened(data) as (node, gauges):
        clock.adopt(node.clock_ahead_us)
        facts = _process(gauges, gauges.process_read("supervisor", 0), clock.now())
        if facts["silent"] >= SILENT_SECONDS:
            raise NotRunning(_silent("supervisor", facts))
        return gauges.pid


def _silent(name: str, facts: Facts) -> str:
    return f"{name} has been silent for {shown(facts['silent'])} ({facts['work']})"


def collect(data: Path, measured: bool = True) -> Status:
    """Read the status of the node on `data`; the use of CPU and memory, and rates, take a moment to be `measured`.
    NotRunning if there is none.
    """
    with opened(data) as (node, gauges):
        clock.adopt(node.clock_ahead_us)
        return _collect(node, gauges, clock.now(), measured)


@contextmanager
def opened(data: Path) -> Iterator[tuple[Running, Gauges]]:
    """Open the gauges of the node on `data` to read them; yield its facts too. NotRunning if there is none."""
    pointer = Pointer.load(data)
    if not is_claimed(data):
        killed = f" (the last one, pid {pointer.pid}, did not stop cleanly)" if pointer else ""
        raise NotRunning(f"no node runs on {data}{killed}")
    try:
        if pointer is None:
            raise FileNotFoundError
        node = Running.load(pointer.runtime)
        with Gauges.open(node.gauges, writable=False) as gauges:
            yield node, gauges
    except FileNotFoundError:
        raise NotRunning(f"the node on {data} is starting or stopping") from None


def _collect(node: Running, gauges: Gauges, now: float, measured: bool) -> Status:
    before, began = gauges.queues_by_id(), time.monotonic()
    processes = processes_of(gauges, now)
    if measured:
        _observe(processes)
    return status_of(node, gauges, now, processes, before, time.monotonic() - began)


def processes_of(gauges: Gauges, now: float) -> list[Facts]:
    """Return the facts of the processes that the node has; their use of CPU and memory is not measured."""
    return [_process(gauges, gauges.process_read(role, index), now) for role, index in _places(gauges)]


def status_of(
    node: Running, gauges: Gauges, now: float, processes: list[Facts], before: Mapping[int, QueueGauge], seconds: float
) -> Status:
    """Return the status of a node; rates are those since `before`, a reading of the queues so many seconds ago."""
    queues = gauges.queues_by_id()
    for facts in processes:
        if facts["role"] == "shard":
            gate = gauges.queue_read(facts["index"])
            facts["saturated"] = gate is not None and gate.saturated
            facts["reason"] = gate.name if gate is not None and gate.saturated else None
            facts["contents"] = 0 if gate is None else gate.ready_bytes
    summary = {
        "data": node.settings["data"],
        "amqp": show_address(node.host, node.port) if node.settings["plain"] else None,
        "listeners": listeners(node),
        "http": http_ports(node),
        "pid": gauges.pid,
        "uptime": round(now - gauges.process_read("supervisor", 0).started_us / 1e6, 3),
        "topology_version": gauges.topology_version(),
        "memory_limit": node.settings["memory_limit"],
        "contents": sum(facts.get("contents", 0) for facts in processes),
        "rss": sum(facts["rss"] for facts in processes),
        "process_memory": NodeMemory(gauges).measure(),
        "process_limit": node.settings["memory"]["process_limit"],
        "in_flight": sum(
            gauges.pair_in_flight(acceptor, shard)
            for acceptor in range(gauges.acceptors)
            for shard in range(gauges.shards)
        ),
    }
    facts_of_queues = [
        {
            **_queue(queue, now),
            **rates(earlier if (earlier := before.get(id)) else queue, queue, seconds),
            **overshoot(queue, gauges.acceptors),
        }
        for id, queue in queues.items()
    ]
    return Status(summary, near_limits(node, len(queues)), processes, sorted(facts_of_queues, key=_by_name))


def _places(gauges: Gauges) -> Iterator[tuple[Role, int]]:
    yield "supervisor", 0
    yield "router", 0
    shards: list[tuple[Role, int]] = [("shard", index) for index in range(gauges.shards)]
    yield from (place for place in shards if gauges.process_read(*place).state != UNSTARTED)
    yield from (("acceptor", index) for index in range(gauges.acceptors))
    optional: tuple[Role, ...] = ("console", "balancer", "relay")
    yield from ((role, 0) for role in optional if gauges.process_read(role, 0).state != UNSTARTED)


def _process(gauges: Gauges, place: Process, now: float) -> Facts:
    counters = gauges.counters_read(place.role, place.index)._asdict()
    del counters["torn"]
    return {
        "role": place.role,
        "index": place.index,
        "pid": place.pid,
        "incarnation": place.incarnation,
        "state": STATE_NAMES[place.state],
        **_silence(gauges, place, now),
        "restarts": place.restarts,
        "uptime": round(max(0.0, now - place.started_us / 1e6), 3) if place.pid else 0.0,
        "cpu_percent": 0.0,
        "rss": 0,
        **counters,
    }


def _silence(gauges: Gauges, place: Process, now: float) -> Facts:
    """Return the seconds since the last beat of a live process, and its work at that beat."""
    if place.state not in (STARTING, READY):
        return {"silent": 0.0, "work": None}
    started = time.monotonic() - (now - place.started_us / 1e6)
    seconds, work = silence(gauges, place.role, place.index, place.incarnation, started, time.monotonic())
    return {"silent": round(seconds, 3), "work": work.name.lower()}


def _observe(processes: list[Facts]) -> None:
    """Fill in the kernel's figures for live processes: memory, and CPU use over `CPU_SECONDS`."""
    watched = []
    for facts in processes:
        try:
            if facts["pid"]:
                process = psutil.Process(facts["pid"])
                process.cpu_percent()
                watched.append((facts, process))
        except psutil.Error:  # it has died since
            continue
    time.sleep(CPU_SECONDS)
    for facts, process in watched:
        try:
            facts["cpu_percent"] = process.cpu_percent()
            facts["rss"] = process.memory_info().rss
        except psutil.Error:
            continue


def _queue(queue: QueueGauge, now: float) -> Facts:
    facts = {**queue._asdict(), **queue.counters._asdict(), **queue.marks._asdict()}
    for name in ("counters", "marks", "torn"):
        del facts[name]
    since = facts.pop("saturated_since_us")
    facts.pop("since_us")
    facts["saturated_for"] = round(max(0.0, now - since / 1e6), 3) if queue.saturated else 0.0
    begun = datetime.fromtimestamp((since + clock.wall_ahead_us()) / 1e6, UTC)
    facts["saturated_since"] = begun.isoformat() if queue.saturated else None
    return facts


def _by_name(facts: Facts) -> tuple[str, str]:
    return facts["vhost"], facts["name"]
