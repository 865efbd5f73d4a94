"""Waits for a node to become ready, as long as late processes make progress.

A process that loads beats as it progresses (penstock.process.pulse), and has all the time it needs. A process that only
waits for another does not count: after `STILL_SECONDS` without progress the start is given up.
"""

from __future__ import annotations

from collections.abc import Iterable

from ops.child import Child, State
from ops.errors import StartError
from ops.notify import Notifier
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.process.pulse import Work

STILL_SECONDS = 60.0
REPORT_SECONDS = 10.0

log = get_logger()


class Start:
    """The start of one node, from `now` on (monotonic seconds)."""

    def __init__(self, gauges: Gauges, manager: Notifier, now: float) -> None:
        self._gauges = gauges
        self._manager = manager
        self._began = self._progressed = self._reported = now
        self._seen: list[int] = []

    @property
    def deadline(self) -> float:
        """When to check again if nothing happens, in monotonic seconds."""
        return min(self._progressed + STILL_SECONDS, self._reported + REPORT_SECONDS)

    def is_over(self, children: Iterable[Child], now: float) -> bool:
        """Whether all processes that clients depend on are ready. StartError after `STILL_SECONDS` without progress."""
        late = [child for child in children if child.serves_clients and child.state is not State.READY]
        if not late:
            return True
        seen = [len(late), *map(self._progress, late)]
        if seen != self._seen:
            self._seen, self._progressed = seen, now
        names = ", ".join(f"{child.role} {child.index}" for child in late)
        if now > self._progressed + STILL_SECONDS:
            waited = f"{now - self._began:.0f} s, the last {STILL_SECONDS:.0f} without progress"
            raise StartError(f"not ready after {waited}: {names}")
        if now >= self._reported + REPORT_SECONDS:
            self._reported = now
            log.info("not ready yet", waits_for=names, seconds=round(now - self._began))
            self._manager.report_starting(f"waiting for {names}", STILL_SECONDS)
        return False

    def _progress(self, child: Child) -> int:
        """Return the moment of the last beat of a process that loads; 0 for others."""
        moment, work = self._gauges.last_beat(child.role, child.index, child.incarnation)
        return moment if work == Work.LOADING else 0
