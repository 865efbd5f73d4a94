"""The sign of life of a process: its loop stores the time and its kind of work in the gauges, on each beat.

It needs no messages. The supervisor checks whether it changes (`ops.hangs`); `penstock status` shows its age.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from penstock.memory.gauges import Gauges
from penstock.node.failures import Chores
from penstock.node.node import Role

BEAT_SECONDS = 0.5
SILENT_SECONDS = 3.0
"""A process without a sign of life for this long does not answer; a busy one may be late by a second or two."""


class Work(IntEnum):
    """The kind of work that a process's loop does, as the process itself reports it."""

    STARTING = 0
    """No beat yet."""
    LOADING = 1
    """Loading the store, or the topology."""
    DISK = 2
    """Waiting for a call to the disk to return."""
    SERVING = 3

    @property
    def is_patient(self) -> bool:
        """Whether it may take long without anything being wrong."""
        return self is not Work.SERVING


class Pulse:
    """The pulse of one incarnation of a process. Its work is loading until `serve` or `start`."""

    def __init__(self, gauges: Gauges, role: Role, index: int, incarnation: int) -> None:
        self._gauges = gauges
        self._process = role, index, incarnation
        self._work = Work.LOADING
        self._chores: Chores | None = None
        self.beat()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Mark the process as serving, and beat from its loop from here on."""
        self.serve()
        self._chores = Chores(loop, BEAT_SECONDS, self.beat)

    def serve(self) -> None:
        """Mark the process as serving; the caller beats."""
        self._work = Work.SERVING
        self.beat()

    def stop(self) -> None:
        """Stop beating."""
        if self._chores is not None:
            self._chores.stop()

    def beat(self) -> None:
        """Store the time and the kind of work."""
        self._gauges.beat(*self._process, time.monotonic_ns() // 1000, self._work)

    @contextmanager
    def during(self, work: Work) -> Iterator[None]:
        """Mark the loop as doing `work`, in which it cannot beat."""
        before, self._work = self._work, work
        self.beat()
        try:
            yield
        finally:
            self._work = before
            self.beat()


def silence(gauges: Gauges, role: Role, index: int, incarnation: int, started: float, now: float) -> tuple[float, Work]:
    """How long (seconds) an incarnation started at `started` has given no sign of life, and its last kind of work.

    Both times are of the machine's monotonic clock, in seconds.
    """
    moment, work = gauges.last_beat(role, index, incarnation)
    last = moment / 1e6
    if last < started:
        return max(now - started, 0.0), Work.STARTING
    return max(now - last, 0.0), Work(work)
