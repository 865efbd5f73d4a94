"""The real watchdog over simulated processes: one that hangs for too long is killed, and starts again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

from ops.child import Child
from ops.forkserver import Forked
from ops.hangs import HangWatch
from penstock.memory.gauges import Gauges
from penstock.node.node import Role
from penstock.process.pulse import Work
from penstock.settings.sections import WatchdogSettings

SECONDS = 2.0
"""How long a process may hang."""
Incarnation = tuple[Role, int, int]


class SimulatedProcess(Forked):
    """A process that ends when it is killed."""

    def __init__(self, pid: int, die: Callable[[], None]) -> None:
        super().__init__(pid)
        self.die = die

    def send_signal(self, number: signal.Signals) -> None:
        """Die of SIGKILL; a process that hangs does nothing else."""
        if number is signal.SIGKILL:
            self.die()


class Watchdog:
    """The watchdog of a node in one epoch. `kill` kills the process at a place."""

    def __init__(self, gauges: Gauges, kill: Callable[[Role, int], None]) -> None:
        self.gauges = gauges
        self.kill = kill
        self.watch = HangWatch(gauges, WatchdogSettings(seconds=SECONDS), Path("/nowhere"), lambda pid: "running")
        self.pids = count(1)
        self.children: dict[Incarnation, Child] = {}

    def check(self, running: Iterable[Incarnation], hung: Iterable[Incarnation], now: float) -> None:
        """Have all running processes beat but those that hang; then have the watchdog act."""
        present = [*running]
        self.children = {each: self.children.get(each) or self.child(*each, now) for each in present}
        silent = {*hung}
        for each in present:
            if each not in silent:
                self.gauges.beat(*each, int(now * 1e6), Work.SERVING)
        self.watch.check([*self.children.values()], now)

    def child(self, role: Role, index: int, incarnation: int, now: float) -> Child:
        """Return a process that is ready, as the supervisor knows it."""
        child = Child(role, index, incarnation)
        child.process = SimulatedProcess(next(self.pids), lambda: self.kill(role, index))
        child.started = now
        child.ready()
        return child
