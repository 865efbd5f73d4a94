"""One place in the node and the processes that fill it in turn.

    waiting ──spawn──▶ starting ──report──▶ ready
       ▲                  │                   │
       └────── died ◀─────┴───────────────────┘

A place that is given up becomes absent.

Each process in a place is an incarnation, counted from 1. Messages meant for one incarnation never reach the next.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import StrEnum

from ops.backoff import LONGEST_DELAY, Backoff
from ops.forkserver import Forked
from penstock.node.node import Role
from penstock.node.runtime_paths import UNNEEDED

Fork = Callable[[Role, int, int], Forked]
"""Forks a process of a role, with its index and incarnation. OSError if that fails."""


class State(StrEnum):
    """The state of a place."""

    ABSENT = "absent"
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"


class Child:
    """A place: its role, its index and its present process.

    Times are monotonic seconds, except `started_us`: microseconds of the node's clock. `leaves_by` is the deadline for
    the process to end for good; None while the place is to stay. `vain` is the last incarnation that was to replace the
    present one and has died, 0 for none.
    """

    def __init__(self, role: Role, index: int, incarnation: int = 0) -> None:
        """`incarnation` is that of the last process that was in the place."""
        self.role: Role = role
        self.index = index
        self.incarnation = incarnation
        self.vain = 0
        self.state = State.WAITING
        self.process: Forked | None = None
        self.started = 0.0
        self.started_us = 0
        self.due = 0.0
        self.leaves_by: float | None = None
        self._backoff = Backoff()

    @property
    def pid(self) -> int:
        """The pid of the process; 0 if there is none."""
        return self.process.pid if self.process else 0

    @property
    def next_incarnation(self) -> int:
        """The number of the next process. Odd ones follow even ones: two beside each other share the gauges by that."""
        return self.vain + 2 if self.vain > self.incarnation else self.incarnation + 1

    @property
    def last_incarnation(self) -> int:
        """The last number that a process of this place has had."""
        return max(self.incarnation, self.vain)

    @property
    def serves_clients(self) -> bool:
        """Whether clients depend on the process."""
        return self.role not in UNNEEDED

    @property
    def deaths(self) -> int:
        """The number of processes of this place that have ended."""
        return self.incarnation - (self.process is not None)

    def spawn(self, fork: Fork, now: float, now_us: int) -> None:
        """Start the next incarnation; `now_us` is the node's clock. OSError if it cannot be forked."""
        incarnation = self.next_incarnation
        self.process = fork(self.role, self.index, incarnation)
        self.incarnation = incarnation
        self.state = State.STARTING
        self.started = now
        self.started_us = now_us

    def ready(self) -> None:
        """Mark the process as ready: it has reported that it serves."""
        self.state = State.READY

    def postpone(self, now: float) -> None:
        """Retry the start after LONGEST_DELAY: the process could not be forked."""
        self.due = now + LONGEST_DELAY

    def reap(self, now: float) -> int | None:
        """Return the exit status (negative: the signal) if the process has ended since the last call, else None."""
        if self.process is None:
            return None
        status = self.process.poll()
        if status is not None:
            self.process = None
            self.state = State.WAITING
            self.due = now + self._backoff.after(now - self.started)
        return status

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None:
            self.process.send_signal(number)


def how_it_ended(status: int) -> str:
    """Describe an exit status: "exit status 1" or "killed by SIGKILL"."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
