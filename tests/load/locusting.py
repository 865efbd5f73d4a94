"""Locust as a process of its own: its import replaces the sockets of the whole process."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

from tests.ports import free_port

LOCUSTFILE = Path(__file__).resolve().parents[2] / "load" / "locustfile.py"
RUN_SECONDS = "60"
"""The longest time of a run; it ends earlier once it has received enough."""


COMMAND = (sys.executable, "-m", "locust", "-f", str(LOCUSTFILE))


def locust(url: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Locust without the UI. Four users: one publisher of each kind and a consumer, unless the arguments say
    otherwise.
    """
    port = str(free_port())  # of the master, if there is one: tests run side by side
    command = [*COMMAND, "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--master-port", port]
    command += ["--host", url, "--headless", "--only-summary", "-u", "4", "-r", "50", "-t", RUN_SECONDS]
    return subprocess.run(
        [*command, *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=200
    )


def verdict(run: subprocess.CompletedProcess[str], mark: str) -> list[str]:
    """Return the lines of checks, found `ok` or `FAIL`."""
    lines = [line for line in run.stdout.splitlines() if line.startswith(f"{mark} ")]
    return [line.removeprefix(mark).strip().partition(":")[0] for line in lines]


def held(prefix: Path) -> dict[str, dict[str, float]]:
    """Return the figures of each class of publishers, from the files that `--csv` writes."""
    with Path(f"{prefix}_flow.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row.pop("user"): {name: float(value) for name, value in row.items()} for row in rows}
