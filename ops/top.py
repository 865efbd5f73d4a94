"""`penstock top`: a node at a glance, live."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from ops.absence import exit_unless_running
from ops.naming import Config, Data, named_directory
from ops.output import Column, Output, captured, fitted
from ops.samples import Samples
from ops.selection import Where, selected_rows
from ops.status import Facts, Status
from ops.status_tables import flow_cell, size_cell
from ops.watching import watch

BAR_CELLS = 24
ABOVE = 1.25
"""The end of a bar, as a multiple of the stop mark."""
HEAD_LINES = 12
"""Lines that are not queues: figures, processes, and what is around the tables."""


def top(
    config: Config = None,
    data: Data = None,
    where: Where = None,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="between two looks")] = 1.0,
) -> None:
    """Rates, held producers, processes and queues, those that hold producers first, then the fullest. Reads shared
    memory only. q or Ctrl-C ends it. --where selects queues, as in penstock status.

    Example: penstock top --where 'vhost=eu'
    """
    samples = Samples(named_directory(config, data))

    def text() -> str:
        status = samples.next()
        return drawn(replace(status, queues=selected_rows(status.queues, where, None)))

    with exit_unless_running():
        samples.next()  # the first rates are those since now
        watch(text, every)


def drawn(status: Status) -> str:
    """Return the screen for a status."""
    return captured(lambda console: _print(console, status))


def _print(console: Output, status: Status) -> None:
    for line in figures(status):
        console.print(line, highlight=False)
    console.print(fitted("", PROCESS_COLUMNS, status.processes, console.width))
    queues = by_urgency(status.queues)
    room = max(shutil.get_terminal_size().lines - HEAD_LINES - len(status.processes), 1)
    if console.is_terminal and len(queues) > room:
        console.print(f"{room} of {len(queues):,} queues", highlight=False)
        queues = queues[:room]
    console.print(fitted("", QUEUE_COLUMNS, queues, console.width) if queues else "no queues")


def figures(status: Status) -> list[str]:
    """Return the figures of the node, as lines with markup."""
    node, acceptors = status.node, [facts for facts in status.processes if facts["role"] == "acceptor"]

    def total(name: str) -> int:
        return sum(facts[name] for facts in acceptors)

    ready, unacked = (sum(facts[name] for facts in status.queues) for name in ("ready", "unacked"))
    saturated = sum(facts["saturated"] for facts in status.queues)
    held, paused = total("held_channels"), total("paused_connections")
    style = "red" if held or saturated else "default"
    rates = (
        f"{node['published_per_second']:,.0f} in/s, {node['confirmed_per_second']:,.0f} confirmed/s, "
        f"{node['delivered_per_second']:,.0f} out/s, {ready:,} ready, {unacked:,} unacked, "
        f"{total('connections'):,} connections"
    )
    holding = (
        f"[{style}]{held:,} channels held, {saturated:,} queues hold their producers[/{style}], "
        f"{paused:,} connections paused, {size_cell(total('parked_bytes'))} parked"
    )
    memory = (
        f"contents {bar(node['contents'], node['memory_limit'])} {size_cell(node['contents'])} of "
        f"{size_cell(node['memory_limit'])}, memory {bar(node['process_memory'], node['process_limit'])} "
        f"{size_cell(node['process_memory'])} of {size_cell(node['process_limit'])}"
    )
    lines = [rates, holding, memory]
    lines += [
        f"[red]shard {facts['index']} holds all its producers: {escape(facts['reason'])}[/red]"
        for facts in status.processes
        if facts.get("saturated")
    ]
    return lines


def bar(value: float, most: float, cells: int = 10) -> str:
    """Return a bar that is full at `most`."""
    filled = min(round(cells * value / most), cells) if most else 0
    return "█" * filled + "░" * (cells - filled)


def depth_bar(facts: Mapping[str, Any]) -> str:
    """Return the depth of a queue against its marks, whichever kind it is nearer to: `|` at both. A queue without marks
    has none.
    """
    kinds = [
        (facts["ready"] + facts["unacked"], facts["stop_count"], facts["resume_count"]),
        (facts["whole_bytes"], facts["stop_bytes"], facts["resume_bytes"]),
    ]
    kinds = [kind for kind in kinds if kind[1]]
    if not kinds:
        return ""
    depth, stop, resume = max(kinds, key=lambda kind: kind[0] / kind[1])
    end = max(depth, stop * ABOVE)
    cells = list(bar(depth, end, BAR_CELLS))
    for mark in (resume, stop):
        cells[min(int(BAR_CELLS * mark / end), BAR_CELLS - 1)] = "|"
    return "".join(cells)


def by_urgency(queues: Iterable[Facts]) -> list[Facts]:
    """Return queues in order: those that hold producers come first, then the fullest, then the deepest."""
    return sorted(queues, key=_urgency)


def _urgency(facts: Facts) -> tuple[bool, float, str, str]:
    depth = facts["ready"] + facts["unacked"]
    full = max(
        depth / facts["stop_count"] if facts["stop_count"] else 0.0,
        facts["whole_bytes"] / facts["stop_bytes"] if facts["stop_bytes"] else 0.0,
    )
    return not facts["saturated"], -full or -depth / 1e12, facts["vhost"], facts["name"]


PROCESS_COLUMNS = (
    Column("process", lambda facts: f"{facts['role']} {facts['index']}", right=False),
    Column("state", lambda facts: facts["state"], right=False),
    Column("cpu %", lambda facts: f"{facts['cpu_percent']:.0f}"),
    Column("memory", lambda facts: size_cell(facts["rss"])),
    Column("connections", lambda facts: f"{facts['connections']:,}" if facts["role"] == "acceptor" else "", 1),
    Column("held", lambda facts: f"{facts['held_channels']:,}" if facts["role"] == "acceptor" else "", 1),
)
QUEUE_COLUMNS = (
    Column("vhost", lambda facts: escape(facts["vhost"]), 1, right=False),
    Column("queue", lambda facts: escape(facts["name"]), right=False),
    Column("depth", lambda facts: f"{facts['ready'] + facts['unacked']:,}"),
    Column("marks", depth_bar, 2, right=False),
    Column("in/s", lambda facts: f"{facts['published_per_second']:,.0f}"),
    Column("out/s", lambda facts: f"{facts['drained_per_second']:,.0f}"),
    Column("consumers", lambda facts: f"{facts['consumers']:,}", 3),
    Column("flow", flow_cell, right=False),
)
