"""The running node as a plan sees it: the places of queues, the use and limits of shards, the node's health."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.rebalance.applying import Health
from ops.rebalance.goals import Home, Shard
from ops.rebalance.plan import World
from ops.rebalance.rows import QueueRow
from ops.rebalance.sampling import Samples, with_present_depths
from penstock.control import control
from penstock.memory.gauges import READY
from penstock.node import clock
from penstock.node.node import Node, Role

SAMPLE_SECONDS = 1.0
"""Between two readings of the gauges."""
CPU_SECONDS_MIN = 0.5
"""The shortest time in which CPU use is measured: in a shorter one a tick of the kernel's clock (10 ms) is too much."""


class RunningNode:
    """A running node. All methods raise CommandError if it does not run or answer. This process adopts its clock."""

    def __init__(self, data: Path | None, sleep: Callable[[float], None] = time.sleep) -> None:
        """`sleep` passes the time in which the node is watched; an exception from it ends the watch."""
        self._sleep = sleep
        self.processes = Processes(data)
        self.gauges = self.processes.gauges
        node = Node.load(self.processes.node.runtime)
        self.settings = node.settings
        self.telemetry_name = node.telemetry_name
        clock.adopt(self.processes.node.clock_ahead_us)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Return the router's answer. Refusal if it refuses."""
        try:
            return control.call(self.processes.node.control, command, arguments)
        except (OSError, ValueError) as error:
            raise CommandError(f"the node does not answer: {error}") from None

    def placement(self) -> Facts:
        """Return the places of all queues, and the version of the placement (`router.commands.moves`)."""
        try:
            facts: Facts = self.ask("placement", vhost=None)
        except control.Refusal as refusal:
            raise CommandError(str(refusal)) from None
        return facts

    def watched(self, seconds: float, on_progress: Callable[[float], None]) -> tuple[list[QueueRow], World]:
        """Watch the node for `seconds`; return rows and the world. `on_progress` gets the part that is over."""
        samples, began, used = Samples(), time.monotonic(), self._used()
        while (elapsed := time.monotonic() - began) < seconds or samples.intervals < 1:
            self.processes.check_running()
            samples.add_reading(time.monotonic(), self.gauges.queues_by_id().values())
            on_progress(min(elapsed / seconds, 1.0) if seconds else 1.0)
            self._sleep(min(SAMPLE_SECONDS, seconds) or SAMPLE_SECONDS)
        samples.add_reading(time.monotonic(), self.gauges.queues_by_id().values())
        world = self.world(used, time.monotonic() - began)
        return samples.rows(world.homes), world

    def recorded(self, rows: list[QueueRow], seconds: float) -> tuple[list[QueueRow], World]:
        """Return earlier rows with the present depths of queues, and the world. CPU use is measured for `seconds`."""
        used, began = self._used(), time.monotonic()
        self._sleep(seconds)
        world = self.world(used, time.monotonic() - began)
        return with_present_depths(rows, self.gauges.queues_by_id(), world.homes), world

    def world(self, used: dict[int, float] | None = None, seconds: float = 0.0) -> World:
        """Return the present world. `used` are the CPU seconds of shards `seconds` ago, for their CPU use, which stays
        unknown if that is less than CPU_SECONDS_MIN.
        """
        placement = self.placement()
        homes = [
            Home(each["vhost"], each["name"], each["id"], each["shard"], each["immovable"])
            for each in placement["queues"]
        ]
        now = self._used()
        before = used if used is not None and seconds >= CPU_SECONDS_MIN else {}
        shards = []
        for index in placement["shards"]:
            cpu = None
            if index in before and now.get(index, -1.0) >= before[index]:
                cpu = (now[index] - before[index]) / seconds
            shards.append(self._shard(index, cpu, self.settings.store.limit // len(placement["shards"])))
        return World(homes, shards, placement["version"], frozenset(placement["closed"]))

    def _shard(self, index: int, cpu: float | None, store_limit: int) -> Shard:
        gate, measures = self.gauges.queue_read(index), self.gauges.measures_read("shard", index)
        alive = self.gauges.process_read("shard", index).state == READY
        return Shard(
            index,
            alive,
            cpu,
            memory=gate.ready_bytes if gate else None,
            memory_limit=(gate.marks.stop_bytes or None) if gate else None,
            store=measures.stored_bytes,
            store_limit=store_limit or None,
        )

    def _used(self) -> dict[int, float]:
        """Return the CPU seconds of each live shard."""
        found = {}
        for index in range(self.gauges.shards):
            with suppress(psutil.Error):  # it has died since
                if pid := self.gauges.process_read("shard", index).pid:
                    times = psutil.Process(pid).cpu_times()
                    found[index] = times.user + times.system
        return found

    def health(self) -> Health:
        """Return the present health of the node."""
        gauges, places = self.gauges, self._places()
        lag = max((gauges.measures_read(*place).loop_lag_p99_us for place in places), default=0) / 1000
        counters = [gauges.counters_read("acceptor", index) for index in range(gauges.acceptors)]
        channels, held = sum(each.channels for each in counters), sum(each.held_channels for each in counters)
        gates = [gate for index in range(gauges.shards) if (gate := gauges.queue_read(index)) is not None]
        fill = max((gate.ready_bytes / stop for gate in gates if (stop := gate.marks.stop_bytes)), default=0.0)
        return Health(lag, 100 * held / channels if channels else 0.0, 100 * fill)

    def _places(self) -> list[tuple[Role, int]]:
        shards: list[tuple[Role, int]] = [("shard", index) for index in range(self.gauges.shards)]
        acceptors: list[tuple[Role, int]] = [("acceptor", index) for index in range(self.gauges.acceptors)]
        return [place for place in (*shards, *acceptors) if self.gauges.process_read(*place).state == READY]
