"""One reading of a node, from which all metrics of one scrape come."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from penstock.memory.gauges import UNSTARTED, Counters, FlowSums, Gauges, Measures, Process, QueueGauge
from penstock.node.node import node_name
from penstock.node.runtime_paths import Role
from penstock.process.node_memory import private_memory

ALONE: tuple[Role, ...] = ("supervisor", "router", "console", "balancer", "relay")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the kernel says of a process: processor time in seconds since its start, private memory in bytes."""

    cpu_seconds: float
    memory: int


class Reading:
    """A reading of gauges, with the queues of all vhosts or of chosen ones; `settings` are those of the node.

    Each part is read when it is first asked for, once.
    """

    def __init__(
        self, gauges: Gauges, settings: Mapping[str, Any], vhosts: Collection[str] | None = None
    ) -> None:  # fmt: skip
        self._vhosts = vhosts
        self.gauges = gauges
        self.settings = settings

    @cached_property
    def node(self) -> str:
        """The node's name, as clients see it."""
        return node_name()

    @cached_property
    def processes(self) -> list[Process]:
        """The processes that the node has, running or not."""
        gauges = self.gauges
        places: list[tuple[Role, int]] = [(role, 0) for role in ALONE]
        places += [("shard", index) for index in range(gauges.shards)]
        places += [("acceptor", index) for index in range(gauges.acceptors)]
        found = [gauges.process_read(role, index) for role, index in places]
        return [process for process in found if process.state != UNSTARTED]

    @cached_property
    def usage(self) -> dict[tuple[Role, int], Usage]:
        """The use of the machine by each process that is alive."""
        found = {}
        for process in self.processes:
            try:
                times = psutil.Process(process.pid).cpu_times() if process.pid else None
                if times is not None:
                    found[process.role, process.index] = Usage(times.user + times.system, private_memory(process.pid))
            except psutil.Error:  # it has died since
                continue
        return found

    @cached_property
    def counters(self) -> dict[int, Counters]:
        """The counters of each acceptor."""
        return {index: self.gauges.counters_read("acceptor", index) for index in range(self.gauges.acceptors)}

    @cached_property
    def flow(self) -> dict[int, FlowSums]:
        """The sums of flow control of each acceptor."""
        return {index: self.gauges.flow_read("acceptor", index) for index in range(self.gauges.acceptors)}

    @cached_property
    def measures(self) -> dict[int, Measures]:
        """The measures of each shard."""
        return {index: self.gauges.measures_read("shard", index) for index in self.shards}

    @cached_property
    def acceptor_measures(self) -> dict[int, Measures]:
        """The measures of each acceptor."""
        return {index: self.gauges.measures_read("acceptor", index) for index in range(self.gauges.acceptors)}

    @cached_property
    def gates(self) -> dict[int, QueueGauge]:
        """The gate of each shard."""
        found = {index: self.gauges.queue_read(index) for index in self.shards}
        return {index: gate for index, gate in found.items() if gate is not None}

    @cached_property
    def shards(self) -> list[int]:
        """The shards that the node has."""
        return [process.index for process in self.processes if process.role == "shard"]

    @cached_property
    def queues(self) -> list[QueueGauge]:
        """The queues of the chosen vhosts, by vhost and name."""
        queues = self.gauges.queues_by_id().values()
        chosen = (queue for queue in queues if self._vhosts is None or queue.vhost in self._vhosts)
        return sorted(chosen, key=lambda queue: (queue.vhost, queue.name))

    @cached_property
    def disk_free(self) -> int:
        """Bytes that are free where the node stores messages; 0 if that is not known."""
        try:
            return shutil.disk_usage(Path(self.settings["data"])).free
        except OSError:
            return 0
