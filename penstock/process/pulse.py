"""The sign of life of a process: its loop stores the time and its kind of work in the gauges, on each beat.

It needs no messages. The supervisor checks whether it changes (`ops.hangs`); `penstock status` shows its age.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.memory.gauges import Gauges
from penstock.node.failures import Chores
from penstock.node.node import Role
from penstock.process.silence import Work

__all__ = ["BEAT_SECONDS", "Pulse", "Work"]

BEAT_SECONDS = 0.5


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
