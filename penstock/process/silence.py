"""How long a process has given no sign of life, read from the gauges (`penstock.process.pulse` writes it)."""

from __future__ import annotations

from enum import IntEnum

from penstock.memory.gauges import Gauges
from penstock.node.runtime_paths import Role

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


def silence(gauges: Gauges, role: Role, index: int, incarnation: int, started: float, now: float) -> tuple[float, Work]:
    """How long (seconds) an incarnation started at `started` has given no sign of life, and its last kind of work.

    Both times are of the machine's monotonic clock, in seconds.
    """
    moment, work = gauges.last_beat(role, index, incarnation)
    last = moment / 1e6
    if last < started:
        return max(now - started, 0.0), Work.STARTING
    return max(now - last, 0.0), Work(work)
