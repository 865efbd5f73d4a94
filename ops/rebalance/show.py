"""Shows plans and their history on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ops.output import TEXT_LEAST, Column, fitted, output
from ops.rebalance.plan import Plan
from ops.rebalance.records import Facts
from penstock.text.durations import shown

GOAL_NAMES = {"load": "messages/s", "held": "queues stopped", "bytes": "bytes/s", "queues": "queues"}


@contextmanager
def progress_bar(seconds: float, what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error; the function yielded takes the part that is over, 0 to 1."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with bar:
        task = bar.add_task(what, total=1.0)
        yield lambda part: bar.update(task, completed=part)


def show_plan(plan: Plan, now: float) -> None:
    """Print a plan; `now` is in seconds of the node's clock."""
    out = output(highlight=False)
    left = f"valid for {shown(plan.expires - now)}" if plan.expires > now else "expired"
    undoes = f", undoes {plan.undoes}" if plan.undoes else ""
    inputs = plan.inputs
    out.print(f"plan {plan.id} ({left}){undoes}, for placement version {plan.placement_version}", markup=False)
    out.print(
        f"from {inputs['source']}: {inputs['queues']} queues, {inputs['coverage']:.0%} of their samples", markup=False
    )
    out.print(_scores(plan))
    if plan.moves:
        out.print(fitted("Moves", MOVE_COLUMNS, list(enumerate(plan.moves, 1)), out.width))
        messages, nbytes = sum(move.messages for move in plan.moves), sum(move.nbytes for move in plan.moves)
        out.print(f"{len(plan.moves)} moves, which copy {messages:,} messages, {nbytes:,} bytes")
    else:
        out.print("no moves")
    for note in plan.notes:
        out.print(note, markup=False)


def _scores(plan: Plan) -> Table:
    table = Table("shard", title="Before and after", title_justify="left")
    for name in GOAL_NAMES.values():
        table.add_column(name, justify="right")
    for shard in plan.before["load"]["shards"]:
        table.add_row(shard, *(_pair(plan, goal, shard) for goal in GOAL_NAMES))
    ratios = (
        f"{plan.before[goal]['max_over_mean']:.2f} → {plan.after[goal]['max_over_mean']:.2f}" for goal in GOAL_NAMES
    )
    table.add_section()
    table.add_row("most/mean", *ratios)
    return table


def _pair(plan: Plan, goal: str, shard: str) -> str:
    before, after = (score[goal]["shards"][shard] for score in (plan.before, plan.after))
    digits = 2 if goal == "held" else 0
    return f"{before:,.{digits}f} → {after:,.{digits}f}" if before != after else f"{before:,.{digits}f}"


MOVE_COLUMNS = (
    Column("", lambda row: str(row[0]), right=False),
    Column("vhost", lambda row: _name(row[1].vhost), right=False, least=TEXT_LEAST),
    Column("queue", lambda row: _name(row[1].queue), right=False, least=TEXT_LEAST),
    Column("shard", lambda row: f"{row[1].source} → {row[1].target}", right=False),
    Column("for", lambda row: row[1].goal, 2, right=False),
    Column("messages/s", lambda row: f"{row[1].rate:,.0f}", 3),
    Column("copies", lambda row: f"{row[1].messages:,}", 1),
    Column("bytes", lambda row: f"{row[1].nbytes:,}", 3),
    Column("pause", lambda row: f"{row[1].pause_ms:,.0f} ms", 1),
)
"""Of moves of a plan, with their numbers."""
HISTORY_COLUMNS = (
    Column("plan", lambda row: str(row["plan"]), right=False),
    Column("by", lambda row: str(row["by"] or "-"), 1, right=False),
    Column("begun", lambda row: at(row["begun"]), 1, right=False),
    Column("state", lambda row: str(row["state"]), right=False),
    Column("moved", lambda row: f"{row['moved']} of {row['moves']}"),
    Column("messages", lambda row: f"{row['messages']:,}", 2),
    Column("bytes", lambda row: f"{row['bytes']:,}", 3),
    Column("longest pause", lambda row: f"{row['longest_pause_ms']:,.1f} ms", 1),
    Column("why", lambda row: _name(row["reason"]), right=False, least=TEXT_LEAST),
)
DONE_COLUMNS = (
    Column("at", lambda row: at(row["at"]), 2, right=False),
    Column("", lambda row: str(row["number"] + 1), right=False),
    Column("vhost", lambda row: _name(row["vhost"]), right=False, least=TEXT_LEAST),
    Column("queue", lambda row: _name(row["queue"]), right=False, least=TEXT_LEAST),
    Column("shard", lambda row: f"{row['from']} → {row['to']}", right=False),
    Column("result", lambda row: str(row["result"]), right=False),
    Column("pause", lambda row: "-" if row["pause_ms"] is None else f"{row['pause_ms']:,.1f} ms", 1),
    Column("messages", lambda row: f"{row['messages']:,}", 2),
    Column("bytes", lambda row: f"{row['bytes']:,}", 3),
    Column("why", lambda row: _name(row["reason"]), right=False, least=TEXT_LEAST),
)
"""Of moves that were made, or tried."""


def show_history(found: list[Facts]) -> None:
    """Print the plans that were applied or kept, one a row."""
    out = output(highlight=False)
    out.print(fitted("", HISTORY_COLUMNS, found, out.width))


def show_moves(records: list[Facts]) -> None:
    """Print the moves of a plan, one a row."""
    out = output(highlight=False)
    out.print(fitted("", DONE_COLUMNS, records, out.width))


def show_lease(lease: Facts) -> None:
    """Print the plan that is being applied."""
    progress = lease["progress"]
    out = output(highlight=False)
    out.print(
        f"plan {lease['plan']} is being applied by {lease['holder']} for {shown(time.time() - lease['since'])}: "
        f"{progress['done']} of {progress['moves']} moves, {progress['messages']:,} messages",
        markup=False,
    )
    if progress["waits_for"]:
        out.print(f"waits: {progress['waits_for']}", markup=False)
    out.print("limits: " + ", ".join(f"{name} {value:g}" for name, value in lease["limits"].items()), markup=False)


def _name(text: str) -> str:
    return escape(readable(text))


def show_automatic(facts: Facts) -> None:
    """Print what automatic rebalancing does."""
    out = output(highlight=False)
    if facts["mode"] == "off":
        out.print("automatic rebalancing is off", markup=False)
        return
    until = "" if facts["until"] is None else f", until {at(facts['until'])}"
    out.print(f"automatic rebalancing ({facts['mode']}) is {facts['stage']}: {facts['why']}{until}", markup=False)
    if facts["last"] is not None:
        last = facts["last"]
        out.print(f"its last plan is {last['plan']}: {last['state']}, {last['moved']} of {last['moves']}", markup=False)


def readable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def at(moment: float | None) -> str:
    """Return a time in seconds since 1970 as text, in UTC; "-" for None."""
    return "-" if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(sep=" ", timespec="seconds")
