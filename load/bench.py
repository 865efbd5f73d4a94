"""Benchmarks of one broker, or of two in turn (A B B A …): `python -m load.bench`.

Absolute figures mean little on a shared machine; compare the ratio B/A of one run.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pika.exceptions import AMQPError

from load import pump, wire
from load.churn import churn
from load.idle import idle
from load.latency import Pace, latency
from load.pairs import Ratio, compare
from load.processes import MIB, settled_memory
from load.redeclare import redeclare
from load.target import Target
from load.throughput import Shape, throughput

WIDTH = 12
CPU = "cpu_us_per_message"


class Client(StrEnum):
    """The language of the clients."""

    PYTHON = "python"
    C = "c"


@dataclass(frozen=True, slots=True)
class Options:
    """Options that apply to every row."""

    seconds: float
    concurrency: int
    connections: int
    client: Client = Client.PYTHON


@dataclass(frozen=True, slots=True)
class Row:
    """One benchmark: how to run it, which of its figures is compared, and how the figures of the runs are combined."""

    figure: str
    more_is_better: bool
    of_runs: Callable[[list[float]], float]
    needs_pid: bool
    run: Callable[[Target, int | None, Options], dict[str, Any]]


def run_churn(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
    """Run the row `churn`."""
    return churn(target, pid, options.seconds, options.concurrency)


def run_idle(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
    """Run the row `idle`, which needs the broker's process id."""
    assert pid is not None
    return idle(target, pid, options.connections)


def run_node(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
    """Run the row `node`, which needs the broker's process id."""
    assert pid is not None
    found = settled_memory(pid)
    return {"memory_mib": found.nbytes / MIB, "measure": found.measure}


def run_redeclare(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
    """Run the row `redeclare`, which needs the broker's process id."""
    assert pid is not None
    return redeclare(target, pid, options.seconds)


def flow(**shape: Any) -> Row:
    """A row of throughput, in messages a second."""

    def run(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
        course = pump.throughput if options.client is Client.C else throughput
        return course(target, pid, options.seconds, Shape(**shape))

    return Row("messages_per_second", True, statistics.median, needs_pid=False, run=run)


def delay(figure: str, rate: float, **shape: Any) -> Row:
    """A row of latency: milliseconds from write to delivery, or the processor time, where each producer publishes
    `rate` messages a second.
    """

    def run(target: Target, pid: int | None, options: Options) -> dict[str, Any]:
        course = pump.latency if options.client is Client.C else latency
        return course(target, pid, options.seconds, Pace(Shape(burst=1, **shape), rate))

    return Row(figure, False, statistics.median, needs_pid=figure == CPU, run=run)


ROWS = {
    "tiny": flow(size=16),
    "1k": flow(size=1024),
    "ack": flow(size=256, prefetch=1000),
    "confirm-ack": flow(size=1024, prefetch=1000, confirm=True),
    "waiting": flow(size=256, producers=10, burst=1, prefetch=1000, confirm=True, waits=True),
    "durable": flow(size=1024, producers=2, consumers=2, queues=2, prefetch=1000, confirm=True, persistent=True),
    "queues": flow(size=256, producers=4, consumers=4, queues=4),
    "fanout": flow(size=256, consumers=5, queues=5, fanout=True),
    "writers": flow(size=256, producers=100, consumers=5, queues=5, burst=1, prefetch=200),
    "backlog": flow(size=256, consumers=0),
    "64k": flow(size=65536, burst=2),
    "latency-p50": delay("p50_ms", 2000, size=256),
    "latency-p99": delay("p99_ms", 1000, size=256, producers=4, consumers=4, queues=4, prefetch=100),
    "lone": delay(CPU, 500, size=256),
    "redeclare": Row("cpu_us_per_declaration", False, statistics.median, needs_pid=True, run=run_redeclare),
    "churn": Row("connections_per_second", True, statistics.median, needs_pid=False, run=run_churn),
    # not the median: a broker keeps the memory it has allocated, so only the first run on a fresh one shows the cost
    "idle": Row("cost_mib", False, max, needs_pid=True, run=run_idle),
    "node": Row("memory_mib", False, min, needs_pid=True, run=run_node),
}


def check(chosen: list[str], target: Target, pid: int | None) -> None:
    """Raise ValueError if a row needs the broker's process id and it is missing, ConnectionError if the broker is
    unreachable.
    """
    for name in chosen:
        if ROWS[name].needs_pid and pid is None:
            raise ValueError(f"the row {name} needs the broker's process id")
    wire.check(target)


def measure(row: Row, brokers: dict[str, tuple[Target, int | None]], options: Options, runs: int) -> dict[str, Any]:
    """Run a row against each broker in turn, `runs` times, and return the result as `--json` writes it.

    Every second pair is run in reverse order, so that neither broker always runs in the state that the other left
    behind.
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in brokers}
    for run in range(runs):
        for name in reversed(brokers) if run % 2 else brokers:
            target, pid = brokers[name]
            results[name].append(row.run(target, pid, options))
    figures = {name: row.of_runs([float(result[row.figure]) for result in got]) for name, got in results.items()}
    return {
        "figure": row.figure,
        "more_is_better": row.more_is_better,
        "of_runs": row.of_runs.__name__,
        **results,
        "result": figures,
        "ratio": figures["b"] / figures["a"] if "b" in figures and figures["a"] else None,
        "pairs": pairs(results, row.figure),
        "cpu_pairs": pairs(results, CPU),
    }


def pairs(results: dict[str, list[dict[str, Any]]], figure: str) -> dict[str, Any] | None:
    """Compare a figure pair by pair; None unless there are two brokers and every run has the figure."""
    if "b" not in results or not all(figure in run for runs in results.values() for run in runs):
        return None
    ratio = compare(*([float(run[figure]) for run in results[name]] for name in "ab"))
    return None if ratio is None else ratio.as_json()


def line(*cells: str) -> str:
    """One line of the printed table: the first cell is aligned left, the others right."""
    return "".join(cell.ljust(WIDTH) if at == 0 else cell.rjust(WIDTH) for at, cell in enumerate(cells))


def describe(name: str, result: dict[str, Any]) -> str:
    """One row of the printed table."""
    figures, ratio = result["result"], result["ratio"]
    cells = [name, *(f"{figures[broker]:.5g}" if broker in figures else "" for broker in ("a", "b"))]
    cells.append("" if ratio is None else f"{ratio:.2f}")
    note = "" if result["more_is_better"] else " (less is better)"
    for words, found in ((", by pairs", result["pairs"]), (", processor time by pairs", result["cpu_pairs"])):
        note += f"{words} {Ratio(**found)}" if found is not None and found["low"] is not None else ""
    return f"{line(*cells)}  {result['of_runs']} of {result['figure']}{note}"


def bench(
    rows: Annotated[list[str] | None, typer.Argument(help=f"rows to run, of {', '.join(ROWS)}; default: all")] = None,
    a: Annotated[str, typer.Option(help="AMQP URL of broker A; amqps:// for TLS")] = "amqp://127.0.0.1:5672",
    a_pid: Annotated[int | None, typer.Option(help="parent process of A, for memory and CPU time")] = None,
    b: Annotated[str | None, typer.Option(help="AMQP URL of broker B, run in turn with A")] = None,
    b_pid: Annotated[int | None, typer.Option(help="parent process of B")] = None,
    runs: Annotated[int, typer.Option(min=1, help="runs of each row on each broker")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="length of one run, except for idle and node")] = 4.0,
    concurrency: Annotated[int, typer.Option(min=1, help="client processes of churn")] = 4,
    connections: Annotated[int, typer.Option(min=1, help="connections of idle")] = 2000,
    client: Annotated[
        Client, typer.Option(help="language of the clients; those of redeclare, churn and idle are always in Python")
    ] = Client.PYTHON,
    authority: Annotated[
        Path | None, typer.Option(help="file of the authorities of both brokers; without it they are not verified")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures of every run here")] = None,
) -> None:
    """Measure throughput and latency of common load shapes, the processor time of lone messages and of repeated
    declarations, two costs of connections, churn (opened and closed a second) and idle (memory of many idle ones), and
    the memory of a node.
    """
    options = Options(seconds, concurrency, connections, client)
    report: dict[str, Any] = {}
    try:
        brokers = {"a": (Target.parse(a, authority), a_pid)}
        if b is not None:
            brokers["b"] = (Target.parse(b, authority), b_pid)
        chosen = rows or [
            name for name, row in ROWS.items() if not row.needs_pid or all(p for _, p in brokers.values())
        ]
        if unknown := sorted(set(chosen) - set(ROWS)):
            raise ValueError(f"no row is called {', '.join(unknown)}; choose from {', '.join(ROWS)}")
        for target, pid in brokers.values():
            check(chosen, target, pid)
        typer.echo(line("row", "A", "B", "B/A"))
        for name in chosen:
            report[name] = measure(ROWS[name], brokers, options, runs)
            typer.echo(describe(name, report[name]))
    except (ValueError, OSError, EOFError, AMQPError) as error:
        typer.echo(f"bench: {error}", err=True)
        raise typer.Exit(2) from None
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    typer.run(bench)
