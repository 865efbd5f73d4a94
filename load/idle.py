"""Benchmark row: the memory of idle connections."""

from __future__ import annotations

from typing import Any

from load.processes import MIB, allow_open_files, settled_memory
from load.target import Target
from load.wire import Wire

SPARE_FILES = 100


def idle(target: Target, pid: int, connections: int) -> dict[str, Any]:
    """Open `connections`, each with one channel, and measure by how much the broker's process tree (root `pid`) grows.

    Returns connections, before_mib, open_mib, after_mib (closed again), cost_mib (open minus before),
    kib_per_connection and measure ("pss" or "rss"). OSError if the broker refuses a connection, ValueError if there is
    no process `pid`.
    """
    allow_open_files(connections + SPARE_FILES)
    before = settled_memory(pid)
    wires: list[Wire] = []
    try:
        for _ in range(connections):
            wires.append(Wire(target))  # noqa: PERF401  (on an error the open ones must be closed)
        during = settled_memory(pid)
    finally:
        for wire in wires:
            wire.close()
    after = settled_memory(pid)
    cost = during.nbytes - before.nbytes
    return {
        "connections": connections,
        "before_mib": before.nbytes / MIB,
        "open_mib": during.nbytes / MIB,
        "after_mib": after.nbytes / MIB,
        "cost_mib": cost / MIB,
        "kib_per_connection": cost / 1024 / connections,
        "measure": during.measure,
    }
