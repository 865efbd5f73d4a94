"""Looks for deadlocks among full queues as long as the node runs, tells of them, and has them broken.

Nobody has the whole graph: acceptors know who waits for which queue, shards who consumes from it. They are asked while
somebody is held, more often than it takes to find one; of a queue that got acks since the last time nobody is. What is
done is for the queue's shard to know (policy key `deadlock`); one queue of a circle that does something is enough.

A ring (ops/flow/circles.py) is looked for early, where gauges show that full queues have just begun to get nothing
back. It is let through at once by a queue that lends (`credit`) and has lent nothing yet: that is as much as consumers
have in hand, and the way to its resume mark. All else takes its time.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.flow.circles import AGAIN, SOON, Circle, Lockout, Times, circles, lockouts, rings
from ops.flow.standstill import Standstill
from penstock.limits.features import NACK, REPORT
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.settings import Settings

log = get_logger()

LOOKS = 2
"""So often it is looked in the least time after which one is found."""
Moved = dict[int, tuple[int, int]]
"""What queues have delivered and got back, messages, by their ids."""


class DeadlockWatch:
    """A thread that looks from time to time, between `with` and its end; at first at the gauges in the file `path`."""

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
        ring_times = Times(self._seconds / AGAIN, self._seconds / SOON)
        due = 0.0
        with Gauges.open(self._path, writable=False) as gauges:
            standstill = Standstill(gauges)
            while not self._over.wait(ring_times.least / LOOKS):
                if not any(gauges.counters_read("acceptor", index).held_sessions for index in range(gauges.acceptors)):
                    self._known.clear()
                    self._moved.clear()
                    continue
                now, times = time.monotonic(), self._times()
                early = standstill.has_begun(now, ring_times.least, ring_times.most)
                with suppress(CommandError):  # a process is starting or gone: it is asked the next time
                    if now >= due:
                        due = now + times.least / LOOKS
                        self._look(gauges, times, ring_times)
                    elif early:
                        self._look_for_rings(gauges, ring_times)

    def _times(self) -> Times:
        """One that was just found is found again sooner: it was not let through by enough."""
        if time.monotonic() < self._eager_until:
            return Times(self._seconds / AGAIN, self._seconds)
        self._helped.clear()
        return Times(self._seconds / SOON, self._seconds)

    def _look(self, gauges: Gauges, times: Times, ring_times: Times) -> None:
        processes = Processes(self._settings.data)
        with processes.gauges:
            sessions = processes.ask_acceptors("entangled")
            look = Look(processes, gauges, sessions, self._moved)
            self._moved = look.moved
            locked_out = lockouts(sessions, look.consumers, look.is_still, times)
            full = {one.queue["id"] for one in locked_out}
            found: list[Circle | Lockout] = [
                circle
                for circle in circles(sessions, look.consumers, _connection_of, times)
                if len(circle.queues) > 1 or circle.queues[0]["id"] not in full
            ]
            circled = {queue["id"] for circle in found for queue in circle.queues}
            found += [one for one in locked_out if one.queue["id"] not in circled]
            self._known = {circle.key for circle in found if self._tell(processes, circle, sessions)}
            for ring in rings(sessions, look.consumers, _connection_of, ring_times):
                if all(ring.key != circle.key for circle in found):
                    self._let_through(processes, ring)

    def _look_for_rings(self, gauges: Gauges, times: Times) -> None:
        processes = Processes(self._settings.data)
        with processes.gauges:
            sessions = processes.ask_acceptors("entangled")
            look = Look(processes, gauges, sessions, {})
            for ring in rings(sessions, look.consumers, _connection_of, times):
                self._let_through(processes, ring)

    def _let_through(self, processes: Processes, ring: Circle) -> None:
        """Have a queue of a ring lend, if one does and has lent nothing yet."""
        for queue in self._by_turns(ring):
            arguments = {"id": queue["id"], "circle": str(ring), "told": True, "early": True}
            action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
            if action is None:
                return
            if action != REPORT:
                self._acted(queue)
                log.warning("deadlock", circle=str(ring), action=action)
                return

    def _acted(self, queue: Facts) -> None:
        """A queue does something: where that is not enough it is the one to do more, and soon."""
        self._eager_until = time.monotonic() + self._seconds
        self._helped.add(queue["id"])

    def _by_turns(self, circle: Circle | Lockout) -> list[Facts]:
        """Its queues; that first which did something before, so that it does more."""
        return sorted(circle.queues, key=lambda queue: queue["id"] not in self._helped)

    def _tell(self, processes: Processes, circle: Circle | Lockout, sessions: list[Facts]) -> bool:
        """Have something done about it. Whether nothing is: that is told once."""
        action, news = REPORT, circle.key not in self._known
        for queue in self._by_turns(circle):
            if action == REPORT:
                arguments = {"id": queue["id"], "circle": str(circle), "told": not news, "early": False}
                action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
                if action is None:
                    return False
                if action == NACK:
                    members = [each for each in sessions if each["connection"] in circle.key]
                    _refuse_youngest(processes, queue, members or sessions)
                if action != REPORT:
                    self._acted(queue)
        if news or action != REPORT:
            log.warning("deadlock", circle=str(circle), action=action)
        return bool(action == REPORT)


class Look:
    """What is known at one look of the queues that `sessions` wait for. `moved` is what each has delivered and got back
    by now, `before` at the last look.
    """

    def __init__(self, processes: Processes, gauges: Gauges, sessions: list[Facts], before: Moved) -> None:
        self.processes = processes
        self.before = before
        self.moved: Moved = {}
        self.empty: set[int] = set()
        self.told: dict[int, list[Facts]] = {}
        causes = (cause for session in sessions for cause in session["causes"])
        for id, slot in {cause["id"]: cause["slot"] for cause in causes if cause["kind"] == "queue"}.items():
            row = gauges.queue_read(slot)
            if row is not None and row.queue_id == id:
                self.moved[id] = row.delivered, row.acked
                if not row.ready:
                    self.empty.add(id)

    def is_still(self, cause: Facts) -> bool:
        """Whether it has nothing more for its consumers, and has delivered and got back nothing since the last look."""
        id = cause["id"]
        return id in self.empty and self.before.get(id) == self.moved[id]

    def consumers(self, cause: Facts) -> list[Facts]:
        """The consumers of a queue; none where it has got something back since the last look."""
        id = cause["id"]
        if id not in self.told:
            goes_on = id in self.before and id in self.moved and self.before[id][1] != self.moved[id][1]
            self.told[id] = [] if goes_on else _consumers(self.processes, cause)
        return self.told[id]


def _refuse_youngest(processes: Processes, queue: Facts, sessions: list[Facts]) -> None:
    """Of those who wait for a queue: what the one has parked that was held last is nacked."""
    waiting = [each for each in sessions if any(cause.get("id") == queue["id"] for cause in each["causes"])]
    youngest = min(waiting, key=lambda each: each["held_seconds"])
    named = {name: youngest[name] for name in ("connection", "channel")}
    processes.ask("acceptor", acceptor_of(youngest["connection"]), "refuse", id=queue["id"], **named)


def acceptor_of(connection: str) -> int:
    """The index of a connection's acceptor, which its id begins with."""
    return int(connection.partition(".")[0])


def _consumers(processes: Processes, cause: Facts) -> list[Facts]:
    """The consumers of a queue, each with what its acceptor knows of it."""
    told: list[Facts] = processes.ask("shard", cause["shard"], "consumers", id=cause["id"])
    known: dict[tuple[int, int], Facts] = {}
    for acceptor in {consumer["acceptor"] for consumer in told} - {None}:
        ids = [consumer["id"] for consumer in told if consumer["acceptor"] == acceptor]
        answers = processes.ask("acceptor", acceptor, "consumers", ids=ids)
        known |= {(acceptor, each["id"]): each for each in answers}
    for consumer in told:
        facts = known.get((consumer["acceptor"], consumer["id"]), {})
        consumer.update({name: facts.get(name) for name in ("connection", "party")})
    return told


def _connection_of(consumer: Facts) -> str | None:
    connection: str | None = consumer["connection"]
    return connection
