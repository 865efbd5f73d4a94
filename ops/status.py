"""The status of a node, read from its shared memory: `collect` reads it, `show` prints it.

No process of the node is asked, so this works while processes are busy, stuck or dead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psutil
from rich.markup import escape

from ops.claim import Pointer, is_claimed
from ops.near_limits import near_limits, near_table
from ops.output import Column, fitted, output
from ops.overshoot import overshoot
from ops.port import show as show_address
from ops.rates import rates
from penstock.memory.gauges import READY, STARTING, STATE_NAMES, UNSTARTED, Counters, Gauges, Process, QueueGauge
from penstock.node import clock
from penstock.node.node import Node, Role
from penstock.process.process_memory import NodeMemory
from penstock.process.pulse import SILENT_SECONDS, silence
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


def show(data: Path, as_json: bool) -> None:
    """Print the status of the node on `data`. NotRunning if there is none."""
    status = collect(data)
    if as_json:
        facts = {name: getattr(status, name) for name in ("node", "limits", "processes", "queues")}
        print(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    console = output()
    console.print(_summary(status.node), highlight=False, markup=False)
    for facts in status.processes:
        if facts.get("saturated"):
            text = f"shard {facts['index']} holds all its producers: {facts['reason']}"
            console.print(text, highlight=False, markup=False, style="red")
    if reached := _rungs(status.processes):
        console.print(f"rungs reached by held producers: {reached}", highlight=False, markup=False)
    if refused := sum(facts["refused_connections"] for facts in status.processes):
        console.print(f"connections refused by limits: {refused:,}", highlight=False, markup=False)
    if status.limits:
        console.print(near_table(status.limits))
    console.print(fitted("Processes", PROCESS_COLUMNS, status.processes, console.width))
    if status.queues:
        console.print(fitted("Queues", QUEUE_COLUMNS, status.queues, console.width))
    else:
        console.print("no queues")


def ping(data: Path) -> str:
    """Return the address at which the node on `data` serves. NotRunning, with the reason, if it does not."""
    status = collect(data, measured=False)
    if (reason := why_not_serving(status)) is not None:
        raise NotRunning(reason)
    return str(status.node["amqp"])


def why_not_serving(status: Status) -> str | None:
    """Return the first process that is not ready or not alive, in words; None if all are."""
    for facts in status.processes:
        name = f"{facts['role']} {facts['index']}"
        if facts["state"] != STATE_NAMES[READY]:
            return f"{name} is {facts['state']}"
        if facts["silent"] >= SILENT_SECONDS:
            return f"{name} has been silent for {shown(facts['silent'])} ({facts['work']})"
    return None


def collect(data: Path, measured: bool = True) -> Status:
    """Read the status of the node on `data`; the use of CPU and memory, and rates, take a moment to be `measured`.
    NotRunning if there is none.
    """
    pointer = Pointer.load(data)
    if not is_claimed(data):
        killed = f" (the last one, pid {pointer.pid}, did not stop cleanly)" if pointer else ""
        raise NotRunning(f"no node runs on {data}{killed}")
    try:
        if pointer is None:
            raise FileNotFoundError
        node = Node.load(pointer.runtime)
        with Gauges.open(node.gauges, writable=False) as gauges:
            clock.adopt(node.clock_ahead_us)
            return _collect(node, gauges, clock.now(), measured)
    except FileNotFoundError:
        raise NotRunning(f"the node on {data} is starting or stopping") from None


def _collect(node: Node, gauges: Gauges, now: float, measured: bool) -> Status:
    places = [gauges.process_read(role, index) for role, index in _places(gauges)]
    before, began = _queues(gauges), time.monotonic()
    processes = [_process(gauges, place, now) for place in places]
    if measured:
        _observe(processes)
    queues, seconds = _queues(gauges), time.monotonic() - began
    for facts in processes:
        if facts["role"] == "shard":
            gate = gauges.queue_read(facts["index"])
            facts["saturated"] = gate is not None and gate.saturated
            facts["reason"] = gate.name if gate is not None and gate.saturated else None
            facts["contents"] = 0 if gate is None else gate.ready_bytes
    summary = {
        "data": str(node.settings.data),
        "amqp": show_address(node.host, node.port),
        "pid": gauges.pid,
        "uptime": round(now - gauges.process_read("supervisor", 0).started_us / 1e6, 3),
        "topology_version": gauges.topology_version(),
        "memory_limit": node.settings.memory_limit,
        "contents": sum(facts.get("contents", 0) for facts in processes),
        "rss": sum(facts["rss"] for facts in processes),
        "process_memory": NodeMemory(gauges).measure(),
        "process_limit": node.settings.memory.process_limit,
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


def _queues(gauges: Gauges) -> dict[int, QueueGauge]:
    """Return all queues by id."""
    records = (gauges.queue_read(slot) for slot in gauges.queue_slots() if slot >= gauges.shards)
    return {record.queue_id: record for record in records if record}


def _places(gauges: Gauges) -> Iterator[tuple[Role, int]]:
    yield "supervisor", 0
    yield "router", 0
    shards: list[tuple[Role, int]] = [("shard", index) for index in range(gauges.shards)]
    yield from (place for place in shards if gauges.process_read(*place).state != UNSTARTED)
    yield from (("acceptor", index) for index in range(gauges.acceptors))
    if gauges.process_read("console", 0).state != UNSTARTED:
        yield "console", 0


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


def _summary(node: Facts) -> str:
    return (
        f"node on {node['amqp']}, pid {node['pid']}, up {node['uptime']:.0f} s, data in {node['data']}\n"
        f"contents in memory {_size(node['contents'])} of {_size(node['memory_limit'])}, "
        f"in flight {_size(node['in_flight'])}, "
        f"processes {_size(node['process_memory'])} of {_size(node['process_limit'])}, "
        f"topology version {node['topology_version']}"
    )


def _rungs(processes: list[Facts]) -> str:
    """Return how often each rung was reached, and how many messages were refused, as text; empty if none was."""
    names = [name for name in Counters._fields if name.startswith("rung_") or name == "refused"]
    totals = {name: sum(facts[name] for facts in processes) for name in names}
    words = [f"{name.removeprefix('rung_').replace('_', '-')} {total:,}" for name, total in totals.items() if total]
    return ", ".join(words).replace("refused", "messages refused")


def _state(facts: Mapping[str, Any]) -> str:
    text: str = facts["state"]
    if facts.get("saturated"):
        text += ", saturated"
    if facts["silent"] >= SILENT_SECONDS:
        text += f", [red]silent for {shown(facts['silent'])} ({facts['work']})[/red]"
    return text


def _over(facts: Mapping[str, Any]) -> str:
    """Format the overshoot of the stop marks: the larger of the present and the highest so far, and its bound."""
    counted = f"{max(facts['over_count'], facts['beyond_count']):,} of {facts['over_count_bound']:,}"
    sized = f"{_size(max(facts['over_bytes'], facts['beyond_bytes']))} of {_size(facts['over_bytes_bound'])}"
    return " / ".join([counted] * bool(facts["stop_count"]) + [sized] * bool(facts["stop_bytes"])) or "-"


def _flow(facts: Mapping[str, Any]) -> str:
    if facts["lagging"]:
        return f"[red]lagging for {facts['saturated_for']:.1f} s[/red], does not hold all its producers"
    if facts["saturated"]:
        free = "" if facts["resumes_in"] is None else f", free in {shown(facts['resumes_in'])}"
        return f"[red]saturated for {facts['saturated_for']:.1f} s[/red]{free}"
    if facts["aside"] and (facts["stop_count"] or facts["stop_bytes"]):
        return "holds no producers"
    return "open" if facts["full_in"] is None else f"open, full in {shown(facts['full_in'])}"


def _mark(count: int, size: int) -> str:
    """Format a mark in messages, in bytes, in both or in neither."""
    return " / ".join([f"{count:,}"] * bool(count) + [_size(size)] * bool(size)) or "-"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


PROCESS_COLUMNS = (
    Column("process", lambda facts: f"{facts['role']} {facts['index']}", right=False),
    Column("pid", lambda facts: str(facts["pid"] or "-"), right=False),
    Column("state", lambda facts: _state(facts), right=False),
    Column("incarnation", lambda facts: f"{facts['incarnation']}", 4),
    Column("up s", lambda facts: f"{facts['uptime']:.0f}", 3),
    Column("cpu %", lambda facts: f"{facts['cpu_percent']:.0f}", 1),
    Column("rss", lambda facts: _size(facts["rss"]), 1),
    Column("connections", lambda facts: f"{facts['connections']:,}", 2),
    Column("channels", lambda facts: f"{facts['channels']:,}", 3),
    Column("held", lambda facts: f"{facts['held_channels']:,}", 2),
    Column("parked", lambda facts: _size(facts["parked_bytes"]), 2),
    Column("paused", lambda facts: f"{facts['paused_connections']:,}", 3),
    Column("ignoring", lambda facts: f"{facts['ignoring_flow']:,}", 4),
)
QUEUE_COLUMNS = (
    Column("vhost", lambda facts: escape(facts["vhost"]), 1, right=False),
    Column("queue", lambda facts: escape(facts["name"]), right=False),
    Column("ready", lambda facts: f"{facts['ready']:,}"),
    Column("unacked", lambda facts: f"{facts['unacked']:,}", 1),
    Column("bytes", lambda facts: _size(facts["whole_bytes"]), 3),
    Column("bodies", lambda facts: _size(facts["ready_bytes"] + facts["unacked_bytes"]), 5),
    Column("consumers", lambda facts: f"{facts['consumers']:,}", 2),
    Column("in/s", lambda facts: f"{facts['published_per_second']:,.0f}", 2),
    Column("out/s", lambda facts: f"{facts['drained_per_second']:,.0f}", 2),
    Column("stop at", lambda facts: _mark(facts["stop_count"], facts["stop_bytes"]), 3),
    Column("resume at", lambda facts: _mark(facts["resume_count"], facts["resume_bytes"]), 4),
    Column("over of bound", lambda facts: _over(facts), 5),
    Column("flow", lambda facts: _flow(facts), right=False),
)
