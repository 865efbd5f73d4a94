"""The sign of life of a process: its loop stores the time in the gauges, and what it is at, whenever it comes round.

Nobody sends anything for it. The supervisor looks whether it changes (`ops.hangs`), `penstock status` how old it is.
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
"""A process without a sign of life for so long does not answer; a busy one may be late by a second or two."""


class Work(IntEnum):
    """What the loop of a process is at, as it says itself."""

    STARTING = 0
    """It has not said anything yet."""
    LOADING = 1
    """What is stored, or the topology."""
    DISK = 2
    """It waits for a call to the disk to return."""
    SERVING = 3

    @property
    def is_patient(self) -> bool:
        """Whether that may take long and nothing is wrong."""
        return self is not Work.SERVING


class Pulse:
    """That of one life of a process. It is loading until it is said to serve."""

    def __init__(self, gauges: Gauges, role: Role, index: int, incarnation: int) -> None:
        self._gauges = gauges
        self._life = role, index, incarnation
        self._work = Work.LOADING
        self._chores: Chores | None = None
        self.beat()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """The process serves: from now on its loop beats."""
        self.serve()
        self._chores = Chores(loop, BEAT_SECONDS, self.beat)

    def serve(self) -> None:
        """The process serves: whoever drives it beats."""
        self._work = Work.SERVING
        self.beat()

    def stop(self) -> None:
        if self._chores is not None:
            self._chores.stop()

    def beat(self) -> None:
        self._gauges.beat(*self._life, time.monotonic_ns() // 1000, self._work)

    @contextmanager
    def during(self, work: Work) -> Iterator[None]:
        """Say that the loop is at that, and cannot come round meanwhile."""
        before, self._work = self._work, work
        self.beat()
        try:
            yield
        finally:
            self._work = before
            self.beat()


def silence(gauges: Gauges, role: Role, index: int, incarnation: int, started: float, now: float) -> tuple[float, Work]:
    """For how long (seconds) a life that began at `started` has given no sign of life, and what it was at last.

    Both times are of the machine's monotonic clock, in seconds.
    """
    moment, work = gauges.last_beat(role, index, incarnation)
    last = moment / 1e6
    if last < started:
        return max(now - started, 0.0), Work.STARTING
    return max(now - last, 0.0), Work(work)
