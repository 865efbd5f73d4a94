"""What a setting of the node, or of its processes, changes: each variant against the default, in turn.

    python -m load.tuning
    python -m load.tuning shards-2 pinned --runs 16 --seconds 1.5

For each variant two nodes run, one as it comes and one with the variant, and the benchmark of `load.bench` measures
some of its rows at both. Each line has the default's figure (messages a second, or milliseconds) and its processor time
for a message, in microseconds; the ratio of the variant to the default, in that figure and in processor time, each the
median of pairs with its confidence interval; and how much more memory the variant's node has afterwards, in MiB.
`control` is the default a second time: the spread of equal measurements.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from load.bench import CPU, ROWS, Client, Options, measure
from load.node import LocalNode
from load.pairs import Ratio
from load.processes import MIB, living, settled_memory
from load.target import Target

HEADER = ("variant", "row", "default", "its µs", "ratio", "processor time", "memory")
CONNECTIONS = 2000
FLOWS = ("ack", "confirm-ack", "queues")


@dataclass(frozen=True, slots=True)
class Variant:
    """How a node differs from the default: `settings`, variables of its `environment`, and whether each acceptor and
    shard is `pinned` to a core; and the rows of the benchmark that may show it.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False
    rows: Sequence[str] = FLOWS

    @property
    def options(self) -> list[str]:
        """The options of `penstock serve`."""
        return [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]


VARIANTS = {
    "control": Variant(),
    "acceptors-2": Variant({"acceptors": 2}, rows=(*FLOWS, "writers")),
    "shards-2": Variant({"shards": 2}, rows=(*FLOWS, "durable")),
    "both-2": Variant({"acceptors": 2, "shards": 2}, rows=(*FLOWS, "writers", "durable")),
    "both-4": Variant({"acceptors": 4, "shards": 4}, rows=(*FLOWS, "writers", "durable")),
    "pinned": Variant(pinned=True, rows=(*FLOWS, "latency-p50", "latency-p99")),
    "huge-pages": Variant(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, rows=(*FLOWS, "backlog")),
    "no-telemetry": Variant({"telemetry.enabled": "false"}),
    "http": Variant({"http.enabled": "true", "http.port": 0, "http.metrics_port": 0}),
    "no-arena": Variant({"arena_bytes": 0}, rows=("64k",)),
    "receive-64k": Variant({"amqp.receive_buffer": "64 KiB"}, rows=("1k", "64k")),
    "receive-kernel": Variant({"amqp.receive_buffer": 0}, rows=("1k", "64k")),
    "in-flight-x4": Variant({"flow.pair_bytes": "4 MiB", "flow.pair_count": 8192}, rows=("1k", "ack", "64k")),
    "interval": Variant({"store.durability": "interval=10 ms"}, rows=("durable",)),
}


def pin(pid: int) -> None:
    """Give each acceptor and shard of a node one core, in turn."""
    cores = sorted(os.sched_getaffinity(0))
    served = [each for each in living(pid) if each.name().startswith(("pstk-acceptor", "pstk-shard"))]
    for at, process in enumerate(sorted(served, key=psutil.Process.name)):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {cores[at % len(cores)]})


def ratio(pairs: dict[str, Any] | None) -> str:
    """Format a comparison by pairs."""
    return "" if pairs is None else str(Ratio(**pairs))


def figure(value: float) -> str:
    """Format a rate, or a time."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rows(name: str, variant: Variant, chosen: Sequence[str], options: Options, runs: int) -> list[list[str]]:
    """Measure a variant; return its lines of the table."""
    with (
        tempfile.TemporaryDirectory(prefix="tuning-") as directory,
        LocalNode(Path(directory) / "default") as default,
        LocalNode(Path(directory) / "variant", *variant.options, environment=variant.environment) as other,
    ):
        if variant.pinned:
            pin(other.pid)
        brokers: dict[str, tuple[Target, int | None]] = {
            "a": (default.target, default.pid),
            "b": (other.target, other.pid),
        }
        lines = []
        for row in chosen or variant.rows:
            found = measure(ROWS[row], brokers, options, runs)
            spent = statistics.median(run[CPU] for run in found["a"])
            default_is = [figure(found["result"]["a"]), f"{spent:.3g}"]
            lines.append([name, row, *default_is, ratio(found["pairs"]), ratio(found["cpu_pairs"])])
        more = (settled_memory(other.pid).nbytes - settled_memory(default.pid).nbytes) / MIB
        return [[*line, f"{more:+,.0f}"] for line in lines]


def main(
    variants: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(VARIANTS)}; default: all")] = None,
    row: Annotated[list[str] | None, typer.Option(help="a row of the benchmark instead of the variant's own")] = None,
    runs: Annotated[int, typer.Option(min=1, help="runs of each row on each node")] = 12,
    seconds: Annotated[float, typer.Option(min=0.1, help="length of one run")] = 1.5,
    client: Annotated[Client, typer.Option(help="language of the clients")] = Client.C,
) -> None:
    """Compare variants of a node with the default."""
    if unknown := sorted({*(variants or ())} - set(VARIANTS) | {*(row or ())} - set(ROWS)):
        typer.echo(f"tuning: nothing is called {', '.join(unknown)}; see --help", err=True)
        raise typer.Exit(2)
    options = Options(seconds, concurrency=1, connections=CONNECTIONS, client=client)
    typer.echo("| " + " | ".join(HEADER) + " |\n|" + " --- |" * 2 + " ---: |" * (len(HEADER) - 2))
    for name in variants or VARIANTS:
        for line in rows(name, VARIANTS[name], row or (), options, runs):
            typer.echo("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    typer.run(main)
