"""Replacing running processes one after the other while the node serves: a rolling restart, or an upgrade.

An acceptor is replaced by a successor beside it, so that its place is served all the time:

    waiting ──▶ successor starts ──(ready)──▶ predecessor is asked to end ──(it has)──▶ successor takes the place

The others are alone with their sockets or their store. Each ends before the next one starts, and whoever needs it
waits, as after its death:

    waiting ──▶ predecessor is asked to end ──(it has)──▶ the next one starts ──(ready)──▶ renewed

A place whose process is dead is skipped. A process that dies before it is ready ends the renewal; the log says why. A
successor that dies then had no clients, and no shard knows it. If it dies later, the end of the predecessor is the end
of both.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable

from ops.child import Child
from penstock.node.logs import get_logger
from penstock.node.node import Role
from penstock.node.runtime_paths import UNNEEDED
from penstock.process.process import HAND_OVER

BESIDE: Role = "acceptor"
"""The role whose processes are replaced by successors beside them."""
ORDER: tuple[Role, ...] = (*UNNEEDED, "router", "shard", "acceptor")
"""The order in which the roles of a node are replaced: first those without which clients are served."""
SHARD_SECONDS = 120.0
"""How long a shard may take to store the contents of its memory."""

log = get_logger()


class Renewal:
    """A renewal of `places`, the first of which has the `successor`, if one runs.

    `predecessor` is the process that is asked to end, None if there is none, and `deadline` when it must have, in
    monotonic seconds. `returning` is the place whose next process is not ready yet. `failure` is the reason why the
    last renewal ended early, "" if it did not.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.places: deque[Child] = deque()
        self.successor: Child | None = None
        self.predecessor: Child | None = None
        self.returning: Child | None = None
        self.deadline: float | None = None
        self.failure = ""

    @property
    def is_over(self) -> bool:
        """Whether no place is left to be replaced."""
        return not self.places and self.predecessor is None

    def add(self, places: Iterable[Child]) -> None:
        """Add places to be replaced, after those that are waiting already."""
        self.failure = ""
        self.places.extend(place for place in places if place not in self.places)

    def next_place(self) -> Child | None:
        """Return the place whose turn it is; None if one is being replaced, or no place is left."""
        if self.successor is not None or self.predecessor is not None or self.returning is not None:
            return None
        while self.places and not self.places[0].process:
            self.places.popleft()
        return self.places[0] if self.places else None

    def set_successor(self, successor: Child) -> None:
        """Record the successor of the first place: it has been started."""
        self.successor = successor

    def end_predecessor(self, now: float) -> None:
        """Ask the process in the first place to end: its successor is ready, or can only start then."""
        place = self.places[0]
        hands_over = place.role == "shard"
        self.predecessor, self.deadline = place, now + (SHARD_SECONDS if hands_over else self.patience)
        place.send(HAND_OVER if hands_over else signal.SIGTERM)

    def kill_late(self, now: float) -> None:
        """Kill a predecessor that does not end in time."""
        if self.predecessor is not None and self.deadline is not None and now >= self.deadline:
            place = self.predecessor
            log.warning("process killed, it took too long to stop", process=f"{place.role} {place.index}")
            self.deadline = now + self.patience
            place.send(signal.SIGKILL)

    def promote_successor(self, child: Child) -> Child | None:
        """Return the successor of a process that has ended, and proceed to the next place; None if it has none."""
        if child is self.predecessor and child.role == BESIDE:
            self.predecessor, self.deadline = None, None
        if self.successor is None or child is not self.places[0]:
            return None
        successor, self.successor = self.successor, None
        self.places.popleft()
        return successor

    def vacate(self, child: Child) -> bool:
        """Whether a process that has ended was asked to, and its place awaits the next one."""
        if child is not self.predecessor:
            return False
        self.predecessor, self.deadline = None, None
        self.returning = child
        return True

    def has_returned(self, child: Child) -> bool:
        """Whether a process that is ready is the next one of the place that was vacated; proceed to the next place."""
        if child is not self.returning:
            return False
        self.returning = None
        self.places.popleft()
        return True

    def give_up(self, reason: str) -> None:
        """End the renewal: the places still waiting are not replaced."""
        if self.successor is not None:
            self.places[0].vain = self.successor.incarnation
        self.places.clear()
        self.successor = self.returning = None
        self.failure = reason

    def forget(self, child: Child) -> None:
        """A place is removed."""
        if child in self.places:
            self.places.remove(child)
        if child is self.predecessor:
            self.predecessor, self.deadline = None, None
        if child is self.returning:
            self.returning = None

    def stop(self) -> None:
        """End the renewal: the node stops, and ends all processes."""
        self.places.clear()
        self.successor = self.predecessor = self.returning = self.deadline = None
