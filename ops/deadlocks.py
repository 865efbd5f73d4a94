"""Looks for deadlocks among full queues as long as the node runs, tells of them, and has them broken.

Nobody has the whole graph: acceptors know who waits for which queue, shards who consumes from it. They are asked when
somebody has been held for `flow.deadlock_seconds`. What is done is for the queue's shard to know (policy key
`deadlock`); one queue of a circle that does something is enough.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from ops.administration.processes import Facts, Processes
from ops.errors import CommandError
from ops.flow.circles import Circle, Lockout, circles, lockouts
from penstock.features import NACK, REPORT
from penstock.logs import get_logger
from penstock.settings import Settings

log = get_logger()


class DeadlockWatch:
    """A thread that looks from time to time, between `with` and its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seconds = settings.flow.deadlock_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deadlocks", daemon=True)
        self._known: set[frozenset[str]] = set()
        self._moved: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> None:
        if self._seconds:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            with suppress(CommandError):  # a process is starting or gone: it is asked the next time
                self._look()

    def _look(self) -> None:
        processes = Processes(self._settings.data)
        with processes.gauges as gauges:
            if not any(gauges.counters_read("acceptor", index).held_sessions for index in range(gauges.acceptors)):
                self._known.clear()
                self._moved.clear()
                return
            sessions = processes.ask_acceptors("entangled")
            moved, self._moved = self._moved, {}

            def still(cause: Facts) -> bool:
                row = gauges.queue_read(cause["slot"])
                if row is None or row.queue_id != cause["id"] or row.ready:
                    return False
                self._moved[row.queue_id] = row.delivered, row.acked
                return moved.get(row.queue_id) == self._moved[row.queue_id]

            def consumers(cause: Facts) -> list[Facts]:
                return _consumers(processes, cause)

            found: list[Circle | Lockout] = [*circles(sessions, consumers, _connection_of, self._seconds)]
            circled = {queue["id"] for circle in found for queue in circle.queues}
            locked_out = lockouts(sessions, consumers, still, self._seconds)
            found += [one for one in locked_out if one.queue["id"] not in circled]
            for circle in found:
                self._tell(processes, circle, sessions)
            self._known = {circle.key for circle in found}

    def _tell(self, processes: Processes, circle: Circle | Lockout, sessions: list[Facts]) -> None:
        """Have something done about it; told once as long as nothing is."""
        action, news = REPORT, circle.key not in self._known
        for queue in circle.queues:
            if action == REPORT:
                arguments = {"id": queue["id"], "circle": str(circle), "told": not news}
                action = processes.ask("shard", queue["shard"], "deadlock", **arguments)
                if action == NACK:
                    members = [each for each in sessions if each["connection"] in circle.key]
                    _refuse_youngest(processes, queue, members or sessions)
        if news or action != REPORT:
            log.warning("deadlock", circle=str(circle), action=action)


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
    for consumer in told:
        consumer["connection"] = consumer["party"] = None
        if consumer["acceptor"] is not None:
            known = processes.ask("acceptor", consumer["acceptor"], "consumers", ids=[consumer["id"]])
            if known:
                consumer.update({name: known[0][name] for name in ("connection", "party")})
    return told


def _connection_of(consumer: Facts) -> str | None:
    connection: str | None = consumer["connection"]
    return connection
