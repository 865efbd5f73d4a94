"""Finds deadlocks among full queues while the node runs, reports them, and has them broken. Without thread or sockets.

No process has the whole graph: acceptors know which connections wait for a queue, shards know its consumers. They are
asked while a producer is held, more than once in the least time after which a deadlock is found; a queue that got acks
since the last check is skipped. The action is up to the queue's shard (policy key `deadlock`); it is enough if one
queue of a circle acts.

Rings (ops/flow/circles.py) are searched for early, when the gauges show that full queues have just stopped getting
acks. A queue of a ring that lends (`credit`) and has lent nothing yet does so at once: as much as its consumers have
unacked, and the distance from its stop mark to its resume mark. All other deadlocks take the usual time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol

from ops.administration.processes import Facts
from ops.errors import CommandError
from ops.flow.circles import FIRST_PART, REPEAT_PART, Circle, Lockout, Times, circles, lockouts, rings
from ops.flow.standstill import Standstill
from penstock.limits.features import NACK, REPORT
from penstock.limits.ladder import REJECT
from penstock.memory.gauges import Gauges
from penstock.node.logs import get_logger
from penstock.node.node import Role

log = get_logger()

CHECKS = 2
"""Checks within the least time after which a deadlock is found."""
Moved = dict[int, tuple[int, int]]
"""Messages delivered and acked, by queue id."""


class Asking(Protocol):
    """What asks the processes of a node. CommandError if one does not answer."""

    def ask(self, role: Role, index: int, question: str, **arguments: Any) -> Any:
        """Return the answer of one process."""

    def ask_acceptors(self, question: str) -> list[Facts]:
        """Return the lists of all acceptors, joined."""


class DeadlockSearch:
    """The search in a node with these gauges: `check` is to be called every `interval` seconds."""

    def __init__(self, gauges: Gauges, seconds: float, connect: Callable[[], AbstractContextManager[Asking]]) -> None:
        """`seconds` is the setting flow.deadlock_seconds; `connect` connects to the processes. CommandError if that is
        not possible.
        """
        self._gauges = gauges
        self._seconds = seconds
        self._connect = connect
        self._ring_times = Times(seconds / REPEAT_PART, seconds / FIRST_PART)
        self.interval = self._ring_times.least / CHECKS
        self._standstill = Standstill(gauges)
        self._due = 0.0
        self._known: set[frozenset[str]] = set()
        self._moved: Moved = {}
        self._eager_until = 0.0
        self._helped: set[int] = set()

    def check(self, now: float) -> None:
        """Search if it is time to, `now` in monotonic seconds. Processes are asked only if the gauges show held
        producers.
        """
        gauges = self._gauges
        if not any(gauges.counters_read("acceptor", index).held_channels for index in range(gauges.acceptors)):
            self._known.clear()
            self._moved.clear()
            return
        times = self._times(now)
        early = self._standstill.has_begun(now, self._ring_times.least, self._ring_times.most)
        with suppress(CommandError):  # a process is starting or gone: the next check asks it
            if now >= self._due:
                self._due = now + times.least / CHECKS
                self.search(times, self._ring_times, now)
            elif early:
                self.search_rings(self._ring_times, now)

    def _times(self, now: float) -> Times:
        """Return the times after which consumers count as stuck. They are shorter just after a deadlock, which may need
        more than was done.
        """
        if now < self._eager_until:
            return Times(self._seconds / REPEAT_PART, self._seconds)
        self._helped.clear()
        return Times(self._seconds / FIRST_PART, self._seconds)

    def search(self, times: Times, ring_times: Times, now: float) -> None:
        """Search for deadlocks among consumers that are stuck after these times, and have them broken."""
        with self._connect() as processes:
            channels = processes.ask_acceptors("entangled")
            check = QueueCheck(processes, self._gauges, channels, self._moved)
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
            self._known = {circle.key for circle in found if self._break(processes, circle, channels, now)}
            for ring in rings(channels, check.consumers, _connection_of, ring_times):
                if all(ring.key != circle.key for circle in found):
                    self._break_early(processes, ring, now)

    def search_rings(self, times: Times, now: float) -> None:
        """Search for rings, and have a queue of each lend."""
        with self._connect() as processes:
            channels = processes.ask_acceptors("entangled")
            check = QueueCheck(processes, self._gauges, channels, {})
            for ring in rings(channels, check.consumers, _connection_of, times):
                self._break_early(processes, ring, now)

    def _break_early(self, processes: Asking, ring: Circle, now: float) -> None:
        """Have one queue of a ring lend, if any does and has lent nothing yet."""
        for queue in self._acted_first(ring):
            arguments = {"id": queue["id"], "circle": str(ring), "reported": True, "early": True}
            action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
            if action is None:
                return
            if action != REPORT:
                self._record_action(queue, now)
                log.warning("deadlock", circle=str(ring), action=action)
                return

    def _record_action(self, queue: Facts, now: float) -> None:
        """Record that a queue has acted: if that was not enough, the same queue is to do more, and soon."""
        self._eager_until = now + self._seconds
        self._helped.add(queue["id"])

    def _acted_first(self, circle: Circle | Lockout) -> list[Facts]:
        """Return the queues of a circle, those that have acted already first, so that they do more."""
        return sorted(circle.queues, key=lambda queue: queue["id"] not in self._helped)

    def _break(self, processes: Asking, circle: Circle | Lockout, channels: list[Facts], now: float) -> bool:
        """Have a deadlock broken, and log it. Returns whether it was only reported, which is logged once."""
        action, news = REPORT, circle.key not in self._known
        for queue in self._acted_first(circle):
            if action == REPORT:
                arguments = {"id": queue["id"], "circle": str(circle), "reported": not news, "early": False}
                action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
                if action is None:
                    return False
                members = [each for each in channels if each["connection"] in circle.key]
                if action == NACK and not _refuse_youngest(processes, queue, members or channels, self._seconds):
                    action = REPORT
                if action != REPORT:
                    self._record_action(queue, now)
        if news or action != REPORT:
            log.warning("deadlock", circle=str(circle), action=action)
        return bool(action == REPORT)


class QueueCheck:
    """One check of the queues that `channels` wait for. `moved` has their messages delivered and acked so far, `before`
    those at the last check.
    """

    def __init__(self, processes: Asking, gauges: Gauges, channels: list[Facts], before: Moved) -> None:
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
        """Return the consumers of a queue; none if messages were acked since the last check. If none is ready, those
        that have nothing in hand are left out: they cannot make room.
        """
        id = cause["id"]
        if id not in self.consumers_by_queue:
            goes_on = id in self.before and id in self.moved and self.before[id][1] != self.moved[id][1]
            found = [] if goes_on else _consumers(self.processes, cause)
            self.consumers_by_queue[id] = [each for each in found if each["in_hand"] or id not in self.empty]
        return self.consumers_by_queue[id]


def _refuse_youngest(processes: Asking, queue: Facts, channels: list[Facts], patience: float) -> bool:
    """Nack the parked publishes of the channel that was held last, among those that wait for a queue. Return whether
    any has parked one, or had it nacked less than `patience` seconds ago, which its client needs to go on. Clients that
    obey may all have stopped first.
    """
    waiting = [
        each
        for each in channels
        if any(cause.get("id") == queue["id"] for cause in each["causes"])
        and (each["parked_bytes"] or is_just_refused(each, patience))
    ]
    if not waiting:
        return False
    youngest = min(waiting, key=lambda each: each["held_seconds"])
    named = {name: youngest[name] for name in ("connection", "channel")}
    processes.ask("acceptor", acceptor_of(youngest["connection"]), "refuse", id=queue["id"], **named)
    return True


def is_just_refused(channel: Facts, patience: float) -> bool:
    """Whether a queue has refused the publishes of a channel for less than `patience` seconds."""
    rung = channel["rung"]
    return rung is not None and rung["name"] == REJECT and rung["seconds"] < patience


def acceptor_of(connection: str) -> int:
    """Return the index of a connection's acceptor, with which the connection's id begins."""
    return int(connection.partition(".")[0])


def _consumers(processes: Asking, cause: Facts) -> list[Facts]:
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
