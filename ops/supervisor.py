"""The parent of a node's processes: starts and watches them, restarts those that die, replaces them, stops them.

One thread, one loop around a poll: signals (a child ended, or a request to stop), reports of children, and the time at
which a restart is due.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable
from typing import Literal, Self

import zmq

from ops.child import Child, State, how_it_ended
from ops.errors import StartError
from ops.forkserver import ForkServer
from ops.hangs import HangWatch
from ops.notify import Notifier
from ops.renewal import Renewal
from ops.signals import Signals
from ops.start import Start
from penstock.bus import pack
from penstock.bus.process_messages import ProcessMessage
from penstock.memory.gauges import DEAD, READY, STARTING, UNSTARTED, Gauges
from penstock.node.logs import get_logger
from penstock.node.node import Node, Role
from penstock.process.process import REFUSED_STATUS, take_reason
from penstock.process.pulse import BEAT_SECONDS, Pulse

START_DEATHS = 3
STOP_ORDER: tuple[tuple[tuple[Role, ...], float], ...] = (
    (("acceptor",), 4.0),
    (("shard",), 3.0),
    (("router", "console"), 1.5),
)
"""Roles in the order in which they are asked to stop, and the seconds before they are killed: in all less than the 10 s
promised.
"""
KILL_SECONDS = 0.3

UNSAID = "its log says why"
"""The reason reported for a process that left none."""

LEAVING_SECONDS = 10.0
"""How long a removed shard may take to end before it is killed."""

STATES = {State.ABSENT: UNSTARTED, State.WAITING: DEAD, State.STARTING: STARTING, State.READY: READY}
"""The value of each state in the gauges."""

log = get_logger()


class Supervisor:
    """The processes of one node. Enter it to bind its sockets; leaving it stops every process."""

    def __init__(
        self,
        node: Node,
        gauges: Gauges,
        signals: Signals,
        forks: ForkServer,
        manager: Notifier,
        reload: Callable[[], bool],
    ) -> None:
        """`reload` reloads the configuration and returns whether the node's processes must reread their node file."""
        self._node = node
        self._gauges = gauges
        self._signals = signals
        self._forks = forks
        self._manager = manager
        self._longest = min(BEAT_SECONDS, manager.every or BEAT_SECONDS)
        self._reload = reload
        self._serving = False
        self._stopping = False
        self._children = [
            Child("router", 0),
            *(Child("shard", index) for index in node.shards),
            *(Child("acceptor", index) for index in range(node.acceptors)),
            *([Child("console", 0)] if node.settings.telemetry.enabled else []),
        ]
        self._pulse = Pulse(gauges, "supervisor", 0, 1)
        self._hangs = HangWatch(gauges, node.settings.watchdog, node.runtime)
        self._renewal = Renewal(next(patience for roles, patience in STOP_ORDER if "acceptor" in roles))

    def __enter__(self) -> Self:
        self._context = zmq.Context(io_threads=1)
        self._events = self._context.socket(zmq.PUB)
        self._events.bind(self._node.process_events)
        self._reports = self._context.socket(zmq.PULL)
        self._reports.bind(self._node.process_reports)
        self._poller = zmq.Poller()
        self._poller.register(self._signals.fileno(), zmq.POLLIN)
        self._poller.register(self._reports, zmq.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._forks.close()
        self._context.destroy(linger=0)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start all processes, call `on_ready` once they are ready, and watch them until asked to stop. StartError if
        one does not start.
        """
        self._pulse.serve()
        start = Start(self._gauges, self._manager, time.monotonic())
        while not self._signals.stop:
            now = time.monotonic()
            self._start_template(now)
            if self._forks.ready:
                self._spawn_due(now)
                self._renew(now)
            self._end_leaving(now)
            self._hangs.check(self._processes(), now)
            self._turn(self._next_due(now, start))
            if not self._serving and start.is_over(self._children, time.monotonic()):
                self._serving = True
                on_ready()

    def _turn(self, seconds: float) -> None:
        """Wait for an event, at most `seconds` and no longer than until the next beat, and handle it."""
        self._pulse.beat()
        self._manager.keep_alive(time.monotonic())
        readable = dict(self._poller.poll(max(0, math.ceil(min(seconds, self._longest) * 1000))))
        if self._forks.fileno in readable:
            self._forks.read_first_message()
        if self._signals.fileno() in readable:
            self._signals.drain()
            self._reap()
            self._reload_if_requested()
        while self._reports in readable and self._reports.poll(0):
            self._on_report(self._reports.recv())

    def _reload_if_requested(self) -> None:
        """Reload the configuration, if that was requested."""
        if not self._signals.reload:
            return
        self._signals.reload = False
        if self._reload():
            for child in self._processes():
                child.send(signal.SIGHUP)

    def _next_due(self, now: float, start: Start) -> float:
        times = [child.due for child in self._children if child.state is State.WAITING and self._forks.ready]
        if self._forks.due is not None:
            times.append(self._forks.due)
        times += [child.leaves_by for child in self._children if child.leaves_by is not None]
        if not self._serving:
            times.append(start.deadline)
        if self._renewal.deadline is not None:
            times.append(self._renewal.deadline)
        return min(times, default=now + BEAT_SECONDS) - now

    def _start_template(self, now: float) -> None:
        """Start the template if it is due: the other processes are forked from it."""
        if self._forks.due is None or self._forks.due > now:
            return
        try:
            self._forks.start(now)
        except OSError as error:
            if not self._serving:
                raise StartError(f"cannot start a process: {error}") from None
            log.error("cannot start a process", process="template", error=str(error))
            return
        self._poller.register(self._forks.fileno, zmq.POLLIN)

    def _spawn_due(self, now: float) -> None:
        for child in self._children:
            if child.state is State.WAITING and child.due <= now:
                self._spawn(child, now)

    def _renew(self, now: float) -> None:
        """Advance a rolling restart."""
        self._renewal.kill_late(now)
        place = self._renewal.next_place()
        if place is None:
            return
        successor = Child(place.role, place.index, place.incarnation)
        try:
            successor.spawn(self._forks, now)
        except OSError as error:
            log.error("cannot start a process, the rolling restart ends", **_facts(successor), error=str(error))
            self._renewal.give_up()
            return
        log.info("process is to be replaced", **_facts(place))
        self._renewal.set_successor(successor)

    def _spawn(self, child: Child, now: float) -> None:
        try:
            child.spawn(self._forks, now)
        except OSError as error:
            if not self._serving:
                raise StartError(f"cannot start {child.role} {child.index}: {error}") from None
            log.error("cannot start a process", **_facts(child), error=str(error))
            child.postpone(now)
            return
        log.debug("process started", **_facts(child))
        self._write_gauges(child)
        self._publish("started", child, child.pid)

    def _reap(self) -> None:
        now = time.monotonic()
        for child in list(self._children):
            pid = child.pid
            status = child.reap(now)
            if status is None:
                continue
            heir = self._renewal.promote_successor(child)
            if child.leaves_by is not None:
                self._remove_place(child, pid)
            elif heir is None:
                self._died(child, pid, status, now)
            else:
                self._succeed(child, heir, pid)
        successor = self._renewal.successor
        if successor is not None and (status := successor.reap(now)) is not None:
            log.error("a successor died, the rolling restart ends", **_facts(successor), how=how_it_ended(status))
            self._renewal.give_up()
            self._gauges.claims_clear(successor.index, successor.incarnation)
        self._reap_template(now)

    def _reap_template(self, now: float) -> None:
        status = self._forks.reap(frozenset(child.pid for child in self._processes()), now)
        if status is None:
            return
        self._poller.unregister(self._forks.fileno)
        how = how_it_ended(status)
        log.error("process died", process="template", how=how)
        if not self._serving and self._forks.deaths >= START_DEATHS:
            reason = take_reason(self._node.runtime, "template", 0) or UNSAID
            raise StartError(f"the template does not start: {self._forks.deaths} times {how}; {reason}")

    def _succeed(self, child: Child, heir: Child, pid: int) -> None:
        """Give the place of a replaced process, which has ended, to its successor."""
        self._children[self._children.index(child)] = heir
        self._write_gauges(heir)
        self._publish("died", child, pid)
        self._publish("started", heir, heir.pid)
        log.info("process replaced", **_facts(heir))

    def _died(self, child: Child, pid: int, status: int, now: float) -> None:
        self._write_gauges(child)
        self._publish("died", child, pid)
        how, reason = how_it_ended(status), take_reason(self._node.runtime, child.role, child.index)
        if self._stopping:
            log.debug("process ended", **_facts(child), pid=pid, how=how)
            return
        if not self._serving and child.serves_clients and (child.deaths >= START_DEATHS or status == REFUSED_STATUS):
            times = f"{child.deaths} times {how}; " if status != REFUSED_STATUS else ""
            raise StartError(f"{child.role} {child.index} does not start: {times}{reason or UNSAID}")
        said = {"reason": reason} if reason else {}
        log.error("process died", **_facts(child), pid=pid, how=how, **said, restart_in=round(child.due - now, 3))

    def _on_report(self, frame: bytes) -> None:
        try:
            event, role, index, incarnation, pid = ProcessMessage.read(frame)
        except (ValueError, TypeError):
            log.error("cannot read a report", frame=frame[:100])
            return
        if event == "restart":
            self._renewal.add(child for child in self._children if child.role == role == "acceptor")
        elif event in ("begin", "end"):
            self._change_shard(index, there=event == "begin")
        successor = self._renewal.successor
        for child in self._processes():
            # The pid as well: the report may be read after its sender has died, when the place has no process.
            facts = (child.role, child.index, child.incarnation, child.pid)
            if event == "ready" and facts == (role, index, incarnation, pid):
                child.ready()
                if child is successor:
                    self._renewal.end_predecessor(time.monotonic())
                else:
                    self._write_gauges(child)
                log.info("process ready", **_facts(child))

    def _processes(self) -> list[Child]:
        """Return all places, and the successor that is to take one over."""
        successor = self._renewal.successor
        return self._children if successor is None else [*self._children, successor]

    def _change_shard(self, index: int, there: bool) -> None:
        """Add a shard, or end one for good."""
        child = next((child for child in self._children if (child.role, child.index) == ("shard", index)), None)
        if there and child is None and 0 <= index < self._node.shard_places:
            self._children.append(Child("shard", index, self._gauges.process_read("shard", index).incarnation))
            log.info("shard added", shard=index)
        elif not there and child is not None and child.leaves_by is None:
            child.leaves_by = time.monotonic() + LEAVING_SECONDS
            log.info("shard is to be removed", shard=index)
            if child.process is None:
                self._remove_place(child, 0)
            child.send(signal.SIGTERM)

    def _end_leaving(self, now: float) -> None:
        """Kill a removed shard that does not end in time: it has no queues to lose."""
        for child in self._children:
            if child.leaves_by is not None and child.leaves_by <= now:
                log.warning("process killed, it took too long to stop", **_facts(child))
                child.leaves_by = now + LEAVING_SECONDS
                child.send(signal.SIGKILL)

    def _remove_place(self, child: Child, pid: int) -> None:
        """Remove a place. Its incarnation number stays in the gauges, for a later place of its index."""
        self._children.remove(child)
        child.state = State.ABSENT
        self._write_gauges(child)
        if pid:
            self._publish("died", child, pid)
        self._publish("gone", child, pid)
        log.info("shard removed", **_facts(child))

    def _publish(self, event: Literal["started", "died", "gone"], child: Child, pid: int) -> None:
        self._events.send(pack(ProcessMessage(event, child.role, child.index, child.incarnation, pid)))

    def _write_gauges(self, child: Child) -> None:
        """Write the state of a place to the gauges; its event is published only after that."""
        self._gauges.process_write(
            child.role,
            child.index,
            pid=child.pid,
            incarnation=child.incarnation,
            state=STATES[child.state],
            started_us=child.started_us,
            restarts=max(0, child.incarnation - 1),
        )

    def _stop(self) -> None:
        """Stop all processes, in an order in which each role outlives those that depend on it."""
        self._stopping = True
        if self._renewal.successor is not None:
            self._children.append(self._renewal.successor)
        self._renewal.give_up()
        for roles, patience in STOP_ORDER:
            group = [child for child in self._children if child.role in roles]
            self._end(group, signal.SIGTERM, patience)
            for child in self._end(group, signal.SIGKILL, KILL_SECONDS):
                log.error("process did not end", **_facts(child))

    def _end(self, group: Iterable[Child], number: signal.Signals, patience: float) -> list[Child]:
        """Signal the live processes of a group and wait for them to end. Returns those that are still alive."""
        alive = [child for child in group if child.process]
        for child in alive:
            if number is signal.SIGKILL:
                log.warning("process killed, it took too long to stop", **_facts(child))
            child.send(number)
        deadline = time.monotonic() + patience
        while alive and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())
            alive = [child for child in alive if child.process]
        return alive


def _facts(child: Child) -> dict[str, object]:
    """Return the log fields of a child; `role` and `index` of a log line are the supervisor's own."""
    return {"process": f"{child.role} {child.index}", "incarnation": child.incarnation}
