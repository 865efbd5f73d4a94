"""Rolling restart: the processes of a role are replaced one after the other, and each place is served all the time.

    waiting ──▶ successor starts ──(ready)──▶ predecessor is told to end ──(it has)──▶ the place is the successor's

Of a place whose process is dead there is nothing to replace. A successor that dies ends the whole: the log says why.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable

from ops.child import Child
from penstock.node.logs import get_logger

log = get_logger()


class Renewal:
    """What is to be replaced, `places` in turn; `successor` is the one for the first of them.

    `deadline` is when the predecessor must have ended, in monotonic seconds, None while it need not.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.places: deque[Child] = deque()
        self.successor: Child | None = None
        self.deadline: float | None = None

    def add(self, places: Iterable[Child]) -> None:
        """Have them replaced after those that are to be."""
        self.places.extend(place for place in places if place not in self.places)

    def next_place(self) -> Child | None:
        """The place that a successor is to be started for now."""
        while self.successor is None and self.places and not self.places[0].process:
            self.places.popleft()
        return None if self.successor is not None or not self.places else self.places[0]

    def begun(self, successor: Child) -> None:
        self.successor = successor

    def serves(self, now: float) -> None:
        """The successor is ready: its predecessor may go."""
        self.deadline = now + self.patience
        self.places[0].send(signal.SIGTERM)

    def hurry(self, now: float) -> None:
        """A predecessor that does not end in time is killed."""
        if self.deadline is not None and now >= self.deadline:
            place = self.places[0]
            log.warning("process killed, it took too long to stop", process=f"{place.role} {place.index}")
            self.deadline = now + self.patience
            place.send(signal.SIGKILL)

    def heir(self, child: Child) -> Child | None:
        """Who takes the place of a process that has ended, if anybody is to."""
        if self.successor is None or child is not self.places[0]:
            return None
        successor, self.successor, self.deadline = self.successor, None, None
        self.places.popleft()
        return successor

    def give_up(self) -> None:
        self.places.clear()
        self.successor, self.deadline = None, None
