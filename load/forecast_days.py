"""How often "full within an hour" was true: days of queues of many kinds are made, then `python -m pipeline backtest`
runs on them.

The kinds: rates that follow the day, consumers that go away, both with uneven rates, bursts of producers, consumers
that come in batches, consumers a little too slow, uneven consumers, and hardly any messages.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import zstandard

from penstock.telemetry.layout import HOUR_US, FileName, partition
from penstock.telemetry.schema import TABLES

KINDS = ("daily", "stalls", "uneven", "bursts", "batches", "leak", "noise", "idle")
DAY = 1_795_132_800_000_000
"""2026-11-20, in µs since 1970."""
STEP_S = 10
STEPS = 24 * 360
EPOCH = DAY - HOUR_US


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=20, help="queues of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="penstock-forecast-") as directory:
        for number, kind in enumerate(KINDS):
            made = (queue(random.Random(f"{options.seed} {kind} {each}"), kind) for each in range(options.queues))
            write(Path(directory), number, [row for each, rows in enumerate(made) for row in named(rows, kind, each)])
        times = ("--from", "2026-11-20T00:00", "--to", "2026-11-21T00:00")
        command = ("-m", "pipeline", "backtest", "--telemetry", directory, "--master", options.master, *times)
        sys.exit(subprocess.run([sys.executable, *command], check=False).returncode)


def queue(chance: random.Random, kind: str) -> Iterator[tuple[int, int]]:
    """Yield depth and stop mark of a queue, each step of a day."""
    stop, rate, phase = chance.randrange(2_000, 50_000), chance.uniform(5, 200), chance.uniform(0, math.tau)
    able, depth, busy, here, left, away = rate * chance.uniform(1.05, 1.6), 0.0, 0, 1, 0.0, 0.0
    for step in range(STEPS):
        comes, goes = rate, able
        if kind in ("daily", "stalls", "uneven"):
            comes *= 1 + 0.5 * math.sin(step / STEPS * math.tau + phase)
        if kind == "bursts":
            if left <= 0:
                busy = 1 - busy
                left = chance.expovariate(1 / (60 if busy else 300))
            left -= 1
            comes *= 8 if busy else 0.3
        if kind in ("stalls", "uneven"):
            if away <= 0:
                here = 1 - here if chance.random() < 0.7 else 1
                away = chance.expovariate(1 / (700 if here else 90))
            away -= 1
            goes *= here
        goes = {"batches": rate * 40 if step % 180 >= 170 else 0.0, "leak": rate * 0.985,
                "noise": able * chance.uniform(0.3, 1.6)}.get(kind, goes)  # fmt: skip
        comes *= {"uneven": chance.gammavariate(2, 0.5), "idle": float(chance.random() < 0.01)}.get(kind, 1.0)
        arrived = 0.0 if depth > stop else max(chance.gauss(comes * STEP_S, math.sqrt(comes * STEP_S)), 0)
        depth = max(depth + arrived - max(chance.gauss(goes * STEP_S, math.sqrt(goes * STEP_S)), 0), 0)
        if kind == "leak" and chance.random() < 0.0003:
            depth = 0
        yield int(depth), stop


def named(rows: Iterator[tuple[int, int]], kind: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield rows of depth of a queue."""
    none = dict.fromkeys((column.name for column in TABLES["depth"].columns if column.type == "bigint"), 0)
    for step, (depth, stop) in enumerate(rows):
        yield {
            **none, "v": 1, "ts": DAY + (step + 1) * STEP_S * 1_000_000 - 1, "node": "node", "epoch": EPOCH,
            "writer": "console.0.1", "seq": step + 1, "vhost": "/", "queue": f"{kind}.{number}", "shard": 0,
            "ready": depth, "interval_ms": STEP_S * 1000, "consumers": 1, "stop_count": stop, "resume_count": stop // 2,
            "saturated": depth > stop, "policy": None, "whole_bytes": None,
        }  # fmt: skip


def write(root: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Write a file an hour."""
    hours: dict[int, list[bytes]] = {}
    for row in rows:
        hours.setdefault(row["ts"] // HOUR_US, []).append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    for hour, lines in hours.items():
        directory = partition(root, "depth", hour)
        directory.mkdir(parents=True, exist_ok=True)
        name = str(FileName("node", f"console.{number}.1", hour * HOUR_US, True))
        (directory / name).write_bytes(zstandard.compress(b"".join(lines)))


if __name__ == "__main__":
    main()
