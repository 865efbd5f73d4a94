"""Rolling restart: the processes of a role are replaced one after the other, and each place is served all the time.

    waiting ──▶ successor starts ──(ready)──▶ predecessor is asked to end ──(it has)──▶ successor takes the place

A place whose process is dead is skipped. A successor that dies ends the rolling restart; the log says why. Until it is
ready, it has no clients and no shard knows it. If it dies later, the end of the predecessor is the end of both.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable

from ops.child import Child
from penstock.node.logs import get_logger

log = get_logger()


class Renewal:
    """A rolling restart of `places`, the first of which has the `successor`, if one runs.

    `predecessor` is the process that is asked to end, None if there is none, and `deadline` when it must have, in
    monotonic seconds.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.places: deque[Child] = deque()
        self.successor: Child | None = None
        self.predecessor: Child | None = None
        self.deadline: float | None = None

    def add(self, places: Iterable[Child]) -> None:
        """Add places to be replaced, after those that are waiting already."""
        self.places.extend(place for place in places if place not in self.places)

    def next_place(self) -> Child | None:
        """Return the place for which a successor is to be started; None if one runs, or no place is left."""
        while self.successor is None and self.places and not self.places[0].process:
            self.places.popleft()
        return None if self.successor is not None or not self.places else self.places[0]

    def set_successor(self, successor: Child) -> None:
        """Record the successor of the first place: it has been started."""
        self.successor = successor

    def end_predecessor(self, now: float) -> None:
        """Ask the predecessor to end: its successor is ready."""
        self.predecessor, self.deadline = self.places[0], now + self.patience
        self.predecessor.send(signal.SIGTERM)

    def kill_late(self, now: float) -> None:
        """Kill a predecessor that does not end in time."""
        if self.predecessor is not None and self.deadline is not None and now >= self.deadline:
            place = self.predecessor
            log.warning("process killed, it took too long to stop", process=f"{place.role} {place.index}")
            self.deadline = now + self.patience
            place.send(signal.SIGKILL)

    def promote_successor(self, child: Child) -> Child | None:
        """Return the successor of a process that has ended, and proceed to the next place; None if it has none."""
        if child is self.predecessor:
            self.predecessor, self.deadline = None, None
        if self.successor is None or child is not self.places[0]:
            return None
        successor, self.successor = self.successor, None
        self.places.popleft()
        return successor

    def give_up(self) -> None:
        """End the rolling restart: the places still waiting are not replaced."""
        if self.successor is not None:
            self.places[0].vain = self.successor.incarnation
        self.places.clear()
        self.successor = None

    def stop(self) -> None:
        """End the rolling restart: the node stops, and ends all processes."""
        self.places.clear()
        self.successor, self.predecessor, self.deadline = None, None, None
