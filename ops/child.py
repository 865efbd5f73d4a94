"""One place in the node and the processes that fill it in turn.

    waiting ──spawn──▶ starting ──report──▶ ready
       ▲                  │                   │
       └────── died ◀─────┴───────────────────┘

Each process in a place is an incarnation, counted from 1; what is meant for one never reaches the next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from penstock.node import Role

CommandOf = Callable[[Role], list[str]]

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0
STEADY_SECONDS = 10.0
"""A process that lived as long as this is not dying of its start: its successor starts at once."""


class State(StrEnum):
    """Where a place is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"


@dataclass(slots=True)
class Backoff:
    """Seconds to wait before a restart: none the first time, then longer and longer while deaths follow quickly."""

    quick_deaths: int = 0

    def after(self, lived: float) -> float:
        if lived >= STEADY_SECONDS:
            self.quick_deaths = 0
        self.quick_deaths += 1
        if self.quick_deaths == 1:
            return 0.0
        exponent = min(self.quick_deaths - 2, 30)
        return float(min(LONGEST_DELAY, FIRST_DELAY * 2**exponent))


class Child:
    """A place: its role and index, and the process that fills it now.

    Times are monotonic seconds, except `started_us`: microseconds since 1970.
    """

    def __init__(self, role: Role, index: int, incarnation: int = 0) -> None:
        """`incarnation` is that of the last process that was in the place."""
        self.role: Role = role
        self.index = index
        self.incarnation = incarnation
        self.state = State.WAITING
        self.process: subprocess.Popen[bytes] | None = None
        self.started = 0.0
        self.started_us = 0
        self.due = 0.0
        self._backoff = Backoff()

    @property
    def pid(self) -> int:
        """0 if there is no process."""
        return self.process.pid if self.process else 0

    @property
    def deaths(self) -> int:
        """Processes of this place that have ended."""
        return self.incarnation - (self.process is not None)

    def spawn(self, command: list[str], runtime: Path, now: float) -> None:
        """Start the next incarnation. OSError if the command cannot be run."""
        self.process = subprocess.Popen(
            [*command, str(runtime), str(self.index), str(self.incarnation + 1)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,  # standard output belongs to the line that says the node is ready
            process_group=0,  # Ctrl-C in a terminal reaches the supervisor alone, which stops the others in order
            env=_environment(),
        )
        self.incarnation += 1
        self.state = State.STARTING
        self.started = now
        self.started_us = time.time_ns() // 1000

    def ready(self) -> None:
        """The process has reported that it serves."""
        self.state = State.READY

    def postpone(self, now: float) -> None:
        """The process could not be started; try again later."""
        self.due = now + LONGEST_DELAY

    def reap(self, now: float) -> int | None:
        """The exit status (negative: the signal) if the process has ended since the last call, else None."""
        if self.process is None:
            return None
        status = self.process.poll()
        if status is not None:
            self.process = None
            self.state = State.WAITING
            self.due = now + self._backoff.after(now - self.started)
        return status

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)


def role_command(role: Role) -> list[str]:
    """How a process of a role is started: the interpreter this one runs in, the package of the role's name."""
    return [sys.executable, "-m", role]


def how_it_ended(status: int) -> str:
    """ "exit status 1" or "killed by SIGKILL"."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _environment() -> dict[str, str]:
    """The child imports what the supervisor imported, wherever it was started: no folder of the user's shadows ours."""
    here = str(Path(__file__).resolve().parents[1])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([here, path] if path else [here])}
