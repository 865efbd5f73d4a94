"""The supervisor's decisions: which process starts when, follows which, and is given up. Without signals and sockets.

    STARTING ──(all that clients need is ready)──▶ SERVING ──(asked to stop)──▶ STOPPING

While the node starts, a process that cannot start ends it with StartError; later it is started again and again. A place
is never empty for good unless it is removed, and the state of a place is in the gauges before its event is
published.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Literal

from ops.child import Child, Fork, State, how_it_ended
from ops.errors import StartError
from ops.renewal import BESIDE, ORDER, Renewal
from penstock.bus.process_messages import ProcessMessage
from penstock.memory.gauges import DEAD, READY, STARTING, UNSTARTED, Gauges
from penstock.node.clock import now_us
from penstock.node.logs import get_logger
from penstock.node.node import Role
from penstock.process.process import REFUSED_STATUS

START_DEATHS = 3
"""So many deaths of one place while the node starts end the start."""
UNSAID = "its log says why"
"""The reason reported for a process that left none."""
LEAVING_SECONDS = 10.0
"""How long the process of a removed place may take to end before it is killed."""

STATES = {State.ABSENT: UNSTARTED, State.WAITING: DEAD, State.STARTING: STARTING, State.READY: READY}
"""The value of each state in the gauges."""

log = get_logger()


class Phase(Enum):
    """The phases of a node."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Places:
    """The places of one node, with their processes. Times are monotonic seconds."""

    def __init__(
        self,
        children: Iterable[Child],
        gauges: Gauges,
        fork: Fork,
        publish: Callable[[ProcessMessage], None],
        reason_of: Callable[[Role, int], str],
        patience: float,
        clock: Callable[[], int] = now_us,
    ) -> None:
        """`publish` tells all processes of an event; `reason_of` returns the last words of a process that has ended, ""
        if it left none; `patience` is how long a replaced acceptor may take to end, in seconds; `clock` is the node's
        clock, in microseconds.
        """
        self.children = list(children)
        self.phase = Phase.STARTING
        self._gauges = gauges
        self._fork = fork
        self._publish_message = publish
        self._reason_of = reason_of
        self._clock = clock
        self._renewal = Renewal(patience)

    @property
    def processes(self) -> list[Child]:
        """All places, and the successor that is to take one over."""
        successor = self._renewal.successor
        return self.children if successor is None else [*self.children, successor]

    def next_due(self, can_fork: bool) -> float | None:
        """Return when to call `advance` again if nothing happens; None if nothing is due at any time."""
        times = [child.due for child in self.children if child.state is State.WAITING and can_fork]
        times += [child.leaves_by for child in self.children if child.leaves_by is not None]
        if self._renewal.deadline is not None:
            times.append(self._renewal.deadline)
        return min(times, default=None)

    def advance(self, now: float, can_fork: bool) -> None:
        """Start the processes that are due, proceed with a renewal, and kill what takes too long to end.
        StartError if a process cannot be forked while the node starts.
        """
        if can_fork:
            self._spawn_due(now)
            self._renew(now)
        self._end_leaving(now)

    def reap(self, now: float) -> None:
        """Handle the ends of processes. StartError if one that clients need does not start."""
        for child in list(self.processes):  # a successor after its predecessor, whose place it may have got
            if child is self._renewal.successor:
                self._reap_successor(child, now)
                continue
            pid = child.pid
            status = child.reap(now)
            if status is None:
                continue
            heir = self._renewal.promote_successor(child)
            if child.leaves_by is not None:
                self._remove(child, pid)
            elif heir is not None:
                self._succeed(child, heir, pid)
            elif self._renewal.vacate(child):
                self._vacated(child, pid, status, now)
            else:
                self._died(child, pid, status, now)

    def on_report(self, report: ProcessMessage, now: float) -> None:
        """Handle the report of a process, or a request of the router."""
        if report.event == "restart":
            self._renewal.add(child for child in self.children if child.role == report.role == BESIDE)
        elif report.event == "begin":
            self.add(report.role, report.place)
        elif report.event == "end":
            self.end(report.role, report.place, now)
        elif report.event == "ready":
            self._is_ready(report, now)

    def add(self, role: Role, index: int) -> None:
        """Add a place, unless it is there, or the node has no room for it."""
        if self._place(role, index) is None and (role != "shard" or 0 <= index < self._gauges.shards):
            self.children.append(Child(role, index, self._gauges.process_read(role, index).incarnation))
            log.info(f"{role} added", **{role: index})

    def end(self, role: Role, index: int, now: float) -> None:
        """Have a place be removed once its process has ended, unless it is about to be."""
        child = self._place(role, index)
        if child is None or child.leaves_by is not None:
            return
        child.leaves_by = now + LEAVING_SECONDS
        log.info(f"{role} is to be removed", **{role: index})
        if child.process is None:
            self._remove(child, 0)
        child.send(signal.SIGTERM)

    def renew_all(self) -> None:
        """Replace all processes, one after the other."""
        self._renewal.add(sorted(self.children, key=lambda child: ORDER.index(child.role)))

    @property
    def renewed(self) -> bool:
        """Whether no process is left to be replaced."""
        return self._renewal.is_over

    @property
    def at_rest(self) -> bool:
        """Whether no process is about to be ready, or to be removed."""
        return self.renewed and not any(
            child.state is State.STARTING or child.leaves_by is not None for child in self.processes
        )

    @property
    def renewal_failure(self) -> str:
        """Why the last renewal ended early; "" if it did not."""
        return self._renewal.failure

    def stop(self) -> None:
        """Start nothing any more. A successor that is not in its place yet is a process like others."""
        self.phase = Phase.STOPPING
        self.children = self.processes
        self._renewal.stop()

    # Starts

    def _spawn_due(self, now: float) -> None:
        for child in self.children:
            if child.state is State.WAITING and child.due <= now:
                self._spawn(child, now)

    def _spawn(self, child: Child, now: float) -> None:
        try:
            child.spawn(self._fork, now, self._clock())
        except OSError as error:
            if self.phase is Phase.STARTING:
                raise StartError(f"cannot start {child.role} {child.index}: {error}") from None
            log.error("cannot start a process", **facts_of(child), error=str(error))
            child.postpone(now)
            return
        log.debug("process started", **facts_of(child))
        self._write_gauges(child)
        self._publish("started", child, child.pid)

    def _renew(self, now: float) -> None:
        """Advance a renewal."""
        self._renewal.kill_late(now)
        place = self._renewal.next_place()
        if place is None:
            return
        if place.role != BESIDE:
            log.info("process is to be replaced", **facts_of(place))
            self._renewal.end_predecessor(now)
            return
        successor = Child(place.role, place.index, place.next_incarnation - 1)
        try:
            successor.spawn(self._fork, now, self._clock())
        except OSError as error:
            log.error("cannot start a process, the rolling restart ends", **facts_of(successor), error=str(error))
            self._renewal.give_up(f"cannot start {place.role} {place.index}: {error}")
            return
        log.info("process is to be replaced", **facts_of(place))
        self._renewal.set_successor(successor)

    def _is_ready(self, report: ProcessMessage, now: float) -> None:
        successor = self._renewal.successor
        for child in self.processes:
            # The pid as well: the report may be read after its sender has died, when the place has no process.
            if report[1:] != (child.role, child.index, child.incarnation, child.pid):
                continue
            child.ready()
            if child is successor:
                self._publish("replaces", child, child.pid)
                self._renewal.end_predecessor(now)
            else:
                self._write_gauges(child)
            log.info("process ready", **facts_of(child))
            if self._renewal.has_returned(child):
                log.info("process replaced", **facts_of(child))

    # Ends

    def _reap_successor(self, successor: Child, now: float) -> None:
        status = successor.reap(now)
        if status is not None:
            how = how_it_ended(status)
            log.error("a successor died, the rolling restart ends", **facts_of(successor), how=how)
            reason = self._reason_of(successor.role, successor.index) or how
            self._renewal.give_up(f"{successor.role} {successor.index} does not start: {reason}")
            self._gauges.claims_clear(successor.index, successor.incarnation)

    def _succeed(self, child: Child, heir: Child, pid: int) -> None:
        """Give the place of a replaced process, which has ended, to its successor."""
        self.children[self.children.index(child)] = heir
        self._write_gauges(heir)
        self._publish("died", child, pid)
        self._publish("started", heir, heir.pid)
        log.info("process replaced", **facts_of(heir))

    def _vacated(self, child: Child, pid: int, status: int, now: float) -> None:
        """Make room for the next process of a place at once: the one before was asked to end."""
        if status:
            log.error("process died as it was asked to end", **facts_of(child), pid=pid, how=how_it_ended(status))
        child.due = now
        self._write_gauges(child)
        self._publish("died", child, pid)

    def _died(self, child: Child, pid: int, status: int, now: float) -> None:
        self._write_gauges(child)
        self._publish("died", child, pid)
        how, reason = how_it_ended(status), self._reason_of(child.role, child.index)
        if child is self._renewal.returning:
            self._renewal.give_up(f"{child.role} {child.index} does not start: {reason or how}")
        if self.phase is Phase.STOPPING:
            log.debug("process ended", **facts_of(child), pid=pid, how=how)
            return
        refused = status == REFUSED_STATUS
        if self.phase is Phase.STARTING and child.serves_clients and (child.deaths >= START_DEATHS or refused):
            times = "" if refused else f"{child.deaths} times {how}; "
            raise StartError(f"{child.role} {child.index} does not start: {times}{reason or UNSAID}")
        said = {"reason": reason} if reason else {}
        log.error("process died", **facts_of(child), pid=pid, how=how, **said, restart_in=round(child.due - now, 3))

    # Places that come and go: those of shards and of relays

    def _place(self, role: Role, index: int) -> Child | None:
        return next((child for child in self.children if (child.role, child.index) == (role, index)), None)

    def _end_leaving(self, now: float) -> None:
        """Kill the process of a removed place that does not end in time: it has no queues to lose."""
        for child in self.children:
            if child.leaves_by is not None and child.leaves_by <= now:
                log.warning("process killed, it took too long to stop", **facts_of(child))
                child.leaves_by = now + LEAVING_SECONDS
                child.send(signal.SIGKILL)

    def _remove(self, child: Child, pid: int) -> None:
        """Remove a place. Its incarnation number stays in the gauges, for a later place of its index."""
        self.children.remove(child)
        self._renewal.forget(child)
        child.state = State.ABSENT
        self._write_gauges(child)
        if pid:
            self._publish("died", child, pid)
        self._publish("gone", child, pid)
        log.info(f"{child.role} removed", **facts_of(child))

    # What others see

    def _publish(self, event: Literal["started", "died", "gone", "replaces"], child: Child, pid: int) -> None:
        incarnation = child.last_incarnation if event == "died" else child.incarnation
        self._publish_message(ProcessMessage(event, child.role, child.index, incarnation, pid))

    def _write_gauges(self, child: Child) -> None:
        self._gauges.process_write(
            child.role,
            child.index,
            pid=child.pid,
            incarnation=child.incarnation,
            state=STATES[child.state],
            started_us=child.started_us,
            restarts=max(0, child.incarnation - 1),
        )


def facts_of(child: Child) -> dict[str, object]:
    """Return the log fields of a child; `role` and `index` of a log line are the supervisor's own."""
    return {"process": f"{child.role} {child.index}", "incarnation": child.incarnation}
