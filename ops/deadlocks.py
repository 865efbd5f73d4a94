"""Finds deadlocks among full queues while the node runs, reports them, and has them broken.

No process has the whole graph: acceptors know which connections wait for a queue, shards know its consumers. They are
asked while a producer is held, more than once in the least time after which a deadlock is found; a queue that got acks
since the last check is skipped. The action is up to the queue's shard (policy key `deadlock`); it is enough if one
queue of a circle acts.

Rings (ops/flow/circles.py) are searched for early, when the gauges show that full queues have just stopped getting
acks. A queue of a ring that lends (`credit`) and has lent nothing yet does so at once: as much as its consumers have
unacked, and the distance from its stop mark to its resume mark. All other deadlocks take the usual time.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.flow.circles import FIRST_PART, REPEAT_PART, Circle, Lockout, Times, circles, lockouts, rings
from ops.flow.standstill import Standstill
from penstock.limits.features import NACK, REPORT
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings

log = get_logger()

CHECKS = 2
"""Checks within the least time after which a deadlock is found."""
Moved = dict[int, tuple[int, int]]
"""Messages delivered and acked, by queue id."""


class DeadlockWatch:
    """A thread that checks for deadlocks within a `with` block; it asks processes only if the gauges at `path` show
    held producers.
    """

    def __init__(self, settings: Settings, path: Path) -> None:
        self._settings = settings
        self._path = path
        self._seconds = settings.flow.deadlock_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deadlocks", daemon=True)
        self._known: set[frozenset[str]] = set()
        self._moved: Moved = {}
        self._eager_until = 0.0
        self._helped: set[int] = set()

    def __enter__(self) -> None:
        if self._seconds:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _run(self) -> None:
        ring_times = Times(self._seconds / REPEAT_PART, self._seconds / FIRST_PART)
        due = 0.0
        with Gauges.open(self._path, writable=False) as gauges:
            standstill = Standstill(gauges)
            while not self._over.wait(ring_times.least / CHECKS):
                if not any(gauges.counters_read("acceptor", index).held_channels for index in range(gauges.acceptors)):
                    self._known.clear()
                    self._moved.clear()
                    continue
                now, times = time.monotonic(), self._times()
                early = standstill.has_begun(now, ring_times.least, ring_times.most)
                with suppress(CommandError):  # a process is starting or gone: the next check asks it
                    if now >= due:
                        due = now + times.least / CHECKS
                        self._search(gauges, times, ring_times)
                    elif early:
                        self._search_rings(gauges, ring_times)

    def _times(self) -> Times:
        """Return the times after which consumers count as stuck. They are shorter just after a deadlock, which may need
        more than was done.
        """
        if time.monotonic() < self._eager_until:
            return Times(self._seconds / REPEAT_PART, self._seconds)
        self._helped.clear()
        return Times(self._seconds / FIRST_PART, self._seconds)

    def _search(self, gauges: Gauges, times: Times, ring_times: Times) -> None:
        processes = Processes(self._settings.data)
        with processes.gauges:
            channels = processes.ask_acceptors("entangled")
            check = QueueCheck(processes, gauges, channels, self._moved)
            self._moved = check.moved
            locked_out = lockouts(channels, check.consumers, check.is_still, times)
            full = {one.queue["id"] for one in locked_out}
            found: list[Circle | Lockout] = [
                circle
                for circle in circles(channels, check.consumers, _connection_of, times)
                if len(circle.queues) > 1 or circle.queues[0]["id"] not in full
            ]
            circled = {queue["id"] for circle in found for queue in circle.queues}
            found += [one for one in locked_out if one.queue["id"] not in circled]
            self._known = {circle.key for circle in found if self._break(processes, circle, channels)}
            for ring in rings(channels, check.consumers, _connection_of, ring_times):
                if all(ring.key != circle.key for circle in found):
                    self._break_early(processes, ring)

    def _search_rings(self, gauges: Gauges, times: Times) -> None:
        processes = Processes(self._settings.data)
        with processes.gauges:
            channels = processes.ask_acceptors("entangled")
            check = QueueCheck(processes, gauges, channels, {})
            for ring in rings(channels, check.consumers, _connection_of, times):
                self._break_early(processes, ring)

    def _break_early(self, processes: Processes, ring: Circle) -> None:
        """Have one queue of a ring lend, if any does and has lent nothing yet."""
        for queue in self._acted_first(ring):
            arguments = {"id": queue["id"], "circle": str(ring), "reported": True, "early": True}
            action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
            if action is None:
                return
            if action != REPORT:
                self._record_action(queue)
                log.warning("deadlock", circle=str(ring), action=action)
                return

    def _record_action(self, queue: Facts) -> None:
        """Record that a queue has acted: if that was not enough, the same queue is to do more, and soon."""
        self._eager_until = time.monotonic() + self._seconds
        self._helped.add(queue["id"])

    def _acted_first(self, circle: Circle | Lockout) -> list[Facts]:
        """Return the queues of a circle, those that have acted already first, so that they do more."""
        return sorted(circle.queues, key=lambda queue: queue["id"] not in self._helped)

    def _break(self, processes: Processes, circle: Circle | Lockout, channels: list[Facts]) -> bool:
        """Have a deadlock broken, and log it. Returns whether it was only reported, which is logged once."""
        action, news = REPORT, circle.key not in self._known
        for queue in self._acted_first(circle):
            if action == REPORT:
                arguments = {"id": queue["id"], "circle": str(circle), "reported": not news, "early": False}
                action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
                if action is None:
                    return False
                if action == NACK:
                    members = [each for each in channels if each["connection"] in circle.key]
                    _refuse_youngest(processes, queue, members or channels)
                if action != REPORT:
                    self._record_action(queue)
        if news or action != REPORT:
            log.warning("deadlock", circle=str(circle), action=action)
        return bool(action == REPORT)


class QueueCheck:
    """One check of the queues that `channels` wait for. `moved` has their messages delivered and acked so far, `before`
    those at the last check.
    """

    def __init__(self, processes: Processes, gauges: Gauges, channels: list[Facts], before: Moved) -> None:
        self.processes = processes
        self.before = before
        self.moved: Moved = {}
        self.empty: set[int] = set()
        self.consumers_by_queue: dict[int, list[Facts]] = {}
        causes = (cause for channel in channels for cause in channel["causes"])
        for id, slot in {cause["id"]: cause["slot"] for cause in causes if cause["kind"] == "queue"}.items():
            row = gauges.queue_read(slot)
            if row is not None and row.queue_id == id:
                self.moved[id] = row.counters.delivered, row.counters.acked
                if not row.ready:
                    self.empty.add(id)

    def is_still(self, cause: Facts) -> bool:
        """Whether a queue has no ready messages, and none was delivered or acked since the last check."""
        id = cause["id"]
        return id in self.empty and self.before.get(id) == self.moved[id]

    def consumers(self, cause: Facts) -> list[Facts]:
        """Return the consumers of a queue; none if messages were acked since the last check."""
        id = cause["id"]
        if id not in self.consumers_by_queue:
            goes_on = id in self.before and id in self.moved and self.before[id][1] != self.moved[id][1]
            self.consumers_by_queue[id] = [] if goes_on else _consumers(self.processes, cause)
        return self.consumers_by_queue[id]


def _refuse_youngest(processes: Processes, queue: Facts, channels: list[Facts]) -> None:
    """Nack the parked publishes of the channel that was held last, among those that wait for a queue."""
    waiting = [each for each in channels if any(cause.get("id") == queue["id"] for cause in each["causes"])]
    youngest = min(waiting, key=lambda each: each["held_seconds"])
    named = {name: youngest[name] for name in ("connection", "channel")}
    processes.ask("acceptor", acceptor_of(youngest["connection"]), "refuse", id=queue["id"], **named)


def acceptor_of(connection: str) -> int:
    """Return the index of a connection's acceptor, with which the connection's id begins."""
    return int(connection.partition(".")[0])


def _consumers(processes: Processes, cause: Facts) -> list[Facts]:
    """Return the consumers of a queue, each with its connection and party from its acceptor."""
    found: list[Facts] = processes.ask("shard", cause["shard"], "consumers", id=cause["id"])
    known: dict[tuple[int, int], Facts] = {}
    for acceptor in {consumer["acceptor"] for consumer in found} - {None}:
        ids = [consumer["id"] for consumer in found if consumer["acceptor"] == acceptor]
        answers = processes.ask("acceptor", acceptor, "consumers", ids=ids)
        known |= {(acceptor, each["id"]): each for each in answers}
    for consumer in found:
        facts = known.get((consumer["acceptor"], consumer["id"]), {})
        consumer.update({name: facts.get(name) for name in ("connection", "party")})
    return found


def _connection_of(consumer: Facts) -> str | None:
    connection: str | None = consumer["connection"]
    return connection
