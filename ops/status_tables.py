"""The tables of `penstock status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from ops.listeners import described, expiring, when
from ops.output import Column, Output, captured, fitted
from ops.status import Facts, Status
from penstock.memory.gauges import Counters
from penstock.process.silence import SILENT_SECONDS
from penstock.text.durations import shown

SHOWN_MOST = 20
"""Limits shown at most: thousands of addresses may be near theirs."""


def drawn(status: Status) -> str:
    """Return the status of a node as it is printed."""
    return captured(lambda console: _print(console, status))


def _print(console: Output, status: Status) -> None:
    console.print(_summary(status.node), highlight=False, markup=False)
    for facts in status.processes:
        if facts.get("saturated"):
            text = f"shard {facts['index']} holds all its producers: {facts['reason']}"
            console.print(text, highlight=False, markup=False, style="red")
    for file, left in expiring([*status.node["listeners"], *status.node["http"]]):
        console.print(f"the certificate {file} {when(left)}", highlight=False, markup=False, style="red")
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


def near_table(near: list[dict[str, Any]]) -> Table:
    """Return the limits as a table, SHOWN_MOST of them at most."""
    more = len(near) - SHOWN_MOST
    title = "Limits nearly reached" + (f", and {more:,} more" if more > 0 else "")
    table = Table("limit", title=title, title_justify="left")
    table.add_column("of", overflow="fold")
    for name in ("used", "allowed"):
        table.add_column(name, justify="right")
    for row in near[:SHOWN_MOST]:
        whose = f"{row['whose']} {row['name']}".rstrip() if row["whose"] != "node" else "the node"
        table.add_row(row["limit"], escape(whose), f"{row['used']:,}", f"{row['number']:,}")
    return table


def _summary(node: Facts) -> str:
    plain = f" on {node['amqp']}" if node["amqp"] else ""
    further = "".join(f", {each['name']} on {described(each)}" for each in node["listeners"] if each["name"])
    http = "".join(f", HTTP ({each['name']}) on {described(each)}" for each in node["http"])
    return (
        f"node{plain}{further}{http}, pid {node['pid']}, up {node['uptime']:.0f} s, data in {node['data']}\n"
        f"contents in memory {size_cell(node['contents'])} of {size_cell(node['memory_limit'])}, "
        f"in flight {size_cell(node['in_flight'])}, "
        f"processes {size_cell(node['process_memory'])} of {size_cell(node['process_limit'])}, "
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
    sized = f"{size_cell(max(facts['over_bytes'], facts['beyond_bytes']))} of {size_cell(facts['over_bytes_bound'])}"
    return " / ".join([counted] * bool(facts["stop_count"]) + [sized] * bool(facts["stop_bytes"])) or "-"


def flow_cell(facts: Mapping[str, Any]) -> str:
    """Format the state of a queue's flow control, with the time until it changes."""
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
    return " / ".join([f"{count:,}"] * bool(count) + [size_cell(size)] * bool(size)) or "-"


def size_cell(size: float) -> str:
    """Format a number of bytes."""
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
    Column("rss", lambda facts: size_cell(facts["rss"]), 1),
    Column("connections", lambda facts: f"{facts['connections']:,}", 2),
    Column("channels", lambda facts: f"{facts['channels']:,}", 3),
    Column("held", lambda facts: f"{facts['held_channels']:,}", 2),
    Column("parked", lambda facts: size_cell(facts["parked_bytes"]), 2),
    Column("paused", lambda facts: f"{facts['paused_connections']:,}", 3),
    Column("ignoring", lambda facts: f"{facts['ignoring_flow']:,}", 4),
)
QUEUE_COLUMNS = (
    Column("vhost", lambda facts: escape(facts["vhost"]), 1, right=False),
    Column("queue", lambda facts: escape(facts["name"]), right=False),
    Column("ready", lambda facts: f"{facts['ready']:,}"),
    Column("unacked", lambda facts: f"{facts['unacked']:,}", 1),
    Column("bytes", lambda facts: size_cell(facts["whole_bytes"]), 3),
    Column("bodies", lambda facts: size_cell(facts["ready_bytes"] + facts["unacked_bytes"]), 5),
    Column("consumers", lambda facts: f"{facts['consumers']:,}", 2),
    Column("in/s", lambda facts: f"{facts['published_per_second']:,.0f}", 2),
    Column("out/s", lambda facts: f"{facts['drained_per_second']:,.0f}", 2),
    Column("stop at", lambda facts: _mark(facts["stop_count"], facts["stop_bytes"]), 3),
    Column("resume at", lambda facts: _mark(facts["resume_count"], facts["resume_bytes"]), 4),
    Column("over of bound", lambda facts: _over(facts), 5),
    Column("flow", lambda facts: flow_cell(facts), right=False),
)
