"""The status of a node again and again: rates and the use of processors are those since the time before."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from ops.status import Facts, Status, opened, processes_of, status_of
from penstock.memory.gauges import QueueGauge
from penstock.node import clock

COUNTED = ("published", "confirmed", "delivered")
"""Counters of acceptors, of which a sample has the rates."""


class Samples:
    """Samples of the node on a data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._queues: dict[int, QueueGauge] = {}
        self._counted: dict[tuple[int, int], Facts] = {}
        self._at = time.monotonic()
        self._watched: dict[int, psutil.Process] = {}

    def next(self) -> Status:
        """Return the status; `node` has the rates of COUNTED too, in messages a second. NotRunning if there is none."""
        with opened(self._data) as (node, gauges):
            clock.adopt(node.clock_ahead_us)
            now, moment = clock.now(), time.monotonic()
            processes = processes_of(gauges, now)
            self._observe(processes)
            seconds = max(moment - self._at, 1e-3)
            status = status_of(node, gauges, now, processes, self._queues, seconds)
            self._queues = gauges.queues_by_id()
        status.node.update(self._rates(processes, seconds))
        self._at = moment
        return status

    def _rates(self, processes: list[Facts], seconds: float) -> dict[str, float]:
        """Return the rates since the last sample; a process that has begun since then counts from its second one on."""
        before, self._counted = (
            self._counted,
            {(facts["index"], facts["incarnation"]): facts for facts in processes if facts["role"] == "acceptor"},
        )
        return {
            f"{name}_per_second": sum(
                max(facts[name] - before[key][name], 0) for key, facts in self._counted.items() if key in before
            )
            / seconds
            for name in COUNTED
        }

    def _observe(self, processes: list[Facts]) -> None:
        """Fill in the kernel's figures of live processes; the use of processors is since the last sample."""
        watched = {}
        for facts in processes:
            try:
                if pid := facts["pid"]:
                    process = watched[pid] = self._watched.get(pid) or psutil.Process(pid)
                    facts["cpu_percent"], facts["rss"] = process.cpu_percent(), process.memory_info().rss
            except psutil.Error:  # it has died since
                continue
        self._watched = watched
