"""The parent of a node's processes: the shell around `ops.places`, with signals, sockets and the template.

One thread, one loop around a poll: signals (a child ended, or a request to stop), reports of children, and the time at
which a restart is due.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

import zmq

from ops.child import Child, how_it_ended
from ops.errors import StartError
from ops.forkserver import ForkServer
from ops.hangs import HangWatch
from ops.notify import Notifier
from ops.places import START_DEATHS, UNSAID, Phase, Places, facts_of
from ops.signals import Signals
from ops.start import Start
from ops.succession import Estate, Held, Succession
from ops.upgrade.upgrade import Upgrade
from penstock.bus import pack
from penstock.bus.process_messages import ProcessMessage
from penstock.memory.gauges import READY, Gauges
from penstock.node.clock import now_us
from penstock.node.logs import get_logger
from penstock.node.node import Node, Role
from penstock.process.process import take_reason
from penstock.process.pulse import BEAT_SECONDS, Pulse
from penstock.settings import Settings

STOP_ORDER: tuple[tuple[tuple[Role, ...], float], ...] = (
    (("relay",), 1.0),
    (("acceptor", "balancer"), 3.0),
    (("shard",), 3.0),
    (("router", "console"), 1.5),
)
"""Roles in the order in which they are asked to stop, and the seconds before they are killed, beside those that the
ones before them have left: in all less than the 10 s promised.
"""
REPLACED_SECONDS = 4.0
"""How long an acceptor may take to end once its successor serves."""
KILL_SECONDS = 0.3
SUBSCRIBERS: tuple[Role, ...] = ("router", "shard", "acceptor", "console")
"""The roles that follow the events of processes."""
RECONNECT_SECONDS = 2.0
"""How long they may take to connect to a supervisor that has replaced another one."""

log = get_logger()


def first_places(node: Node) -> list[Child]:
    """Return the places of a node that starts."""
    settings = node.settings
    return [
        Child("router", 0),
        *(Child("shard", index) for index in node.shards),
        *(Child("acceptor", index) for index in range(node.acceptors)),
        *([Child("console", 0)] if settings.telemetry.enabled or settings.http.enabled else []),
        *([Child("balancer", 0)] if settings.rebalance.automatic.mode != "off" else []),
    ]


class Supervisor:
    """The processes of one node. Enter it to bind its sockets; leaving it stops every process."""

    def __init__(
        self,
        node: Node,
        gauges: Gauges,
        signals: Signals,
        forks: ForkServer,
        manager: Notifier,
        reload: Callable[[], Settings | None],
        held: Held,
        estate: Estate | None = None,
    ) -> None:
        """`reload` reloads the configuration; it returns the settings that the node's processes must reread from their
        node file, None if that is unchanged. `held` are files that a supervisor after this one needs; `estate` is what
        the one before this one has left.
        """
        self._node = node
        self._settings = node.settings
        self._gauges = gauges
        self._signals = signals
        self._forks = forks
        self._manager = manager
        self._longest = min(BEAT_SECONDS, manager.every or BEAT_SECONDS)
        self._reload = reload
        self._estate = estate
        self._places = Places(
            first_places(node) if estate is None else [place.child() for place in estate.places],
            gauges,
            forks.fork,
            lambda message: self._events.send(pack(message)),
            partial(take_reason, node.runtime),
            REPLACED_SECONDS,
        )
        incarnation = 1 if estate is None else estate.incarnation + 1
        succession = Succession(node.runtime, held, manager, incarnation)
        said = partial(take_reason, node.runtime, "template", 0)
        self._upgrade = Upgrade(node.runtime, forks, self._places, succession, said)
        gauges.process_write(
            "supervisor", 0,
            pid=os.getpid(), incarnation=incarnation, state=READY, started_us=now_us(), restarts=incarnation - 1,
        )  # fmt: skip
        self._pulse = Pulse(gauges, "supervisor", 0, incarnation)
        self._hangs = HangWatch(gauges, node.settings.watchdog, node.runtime)

    def __enter__(self) -> Self:
        self._context = zmq.Context(io_threads=1)
        self._events = self._context.socket(zmq.XPUB)  # a PUB that receives its subscriptions
        self._events.bind(self._node.process_events)
        self._reports = self._context.socket(zmq.PULL)
        self._reports.bind(self._node.process_reports)
        self._poller = zmq.Poller()
        self._poller.register(self._signals.fileno(), zmq.POLLIN)
        self._poller.register(self._reports, zmq.POLLIN)
        self._poller.register(self._events, zmq.POLLIN)
        self._polled: set[int] = set()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._forks.close()
        self._context.destroy(linger=0)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start all processes that do not run, call `on_ready` once they are ready, and watch them until asked to stop.
        StartError if one does not start.
        """
        self._pulse.serve()
        if self._estate is not None:
            self._resume()
            on_ready()
        start = Start(self._gauges, self._manager, time.monotonic())
        while not self._signals.stop:
            now = time.monotonic()
            self._start_template(now)
            self._upgrade.advance(now)
            self._places.advance(now, self._forks.ready)
            self._hangs.check(self._places.processes, now)
            self._turn(self._next_due(now, start))
            if self._places.phase is Phase.STARTING and start.is_over(self._places.children, time.monotonic()):
                self._places.phase = Phase.SERVING
                on_ready()
                self._run_relays()

    def _resume(self) -> None:
        """Go on with the processes of the supervisor before this one, once they have connected again: an event would
        not reach them before.
        """
        self._places.phase = Phase.SERVING
        awaited = sum(child.role in SUBSCRIBERS and child.pid > 0 for child in self._places.children)
        deadline = time.monotonic() + RECONNECT_SECONDS
        while awaited > 0 and self._events.poll(max(0, math.ceil((deadline - time.monotonic()) * 1000))):
            self._events.recv()
            awaited -= 1
        self._upgrade.resume()

    def _turn(self, seconds: float) -> None:
        """Wait for an event, at most `seconds` and no longer than until the next beat, and handle it."""
        self._pulse.beat()
        self._manager.keep_alive(time.monotonic())
        self._poll_templates()
        readable = dict(self._poller.poll(max(0, math.ceil(min(seconds, self._longest) * 1000))))
        self._forks.read_greetings(readable)
        if self._signals.fileno() in readable:
            self._signals.drain()
            now = time.monotonic()
            self._places.reap(now)
            self._reap_template(now)
            self._reload_if_requested()
        while self._events in readable and self._events.poll(0):
            self._events.recv()
        while self._reports in readable and self._reports.poll(0):
            self._on_report(self._reports.recv())

    def _reload_if_requested(self) -> None:
        """Reload the configuration, if that was requested."""
        if not self._signals.reload:
            return
        self._signals.reload = False
        settings = self._reload()
        if settings is None:
            return
        self._settings = settings
        for child in self._places.processes:
            child.send(signal.SIGHUP)
        if settings.rebalance.automatic.mode != "off":
            self._places.add("balancer", 0)
        if self._places.phase is Phase.SERVING:
            self._run_relays()

    def _run_relays(self) -> None:
        """Have a process of relays if the settings have any. It starts once the node serves: it is a client."""
        if self._settings.relays:
            self._places.add("relay", 0)
        else:
            self._places.end("relay", 0, time.monotonic())

    def _next_due(self, now: float, start: Start) -> float:
        times = [self._forks.due, self._upgrade.due, self._places.next_due(self._forks.ready)]
        if self._places.phase is Phase.STARTING:
            times.append(start.deadline)
        return min((due for due in times if due is not None), default=now + BEAT_SECONDS) - now

    def _start_template(self, now: float) -> None:
        """Start the template if it is due: the other processes are forked from it."""
        if self._forks.due is None or self._forks.due > now:
            return
        try:
            self._forks.start(now)
        except OSError as error:
            if self._places.phase is Phase.STARTING:
                raise StartError(f"cannot start a process: {error}") from None
            log.error("cannot start a process", process="template", error=str(error))

    def _poll_templates(self) -> None:
        """Poll the sockets of the templates that run, and of no others."""
        for fileno in self._polled - self._forks.awaited:
            self._poller.unregister(fileno)
        for fileno in self._forks.awaited - self._polled:
            self._poller.register(fileno, zmq.POLLIN)
        self._polled = self._forks.awaited

    def _reap_template(self, now: float) -> None:
        status = self._forks.reap(frozenset(child.pid for child in self._places.processes), now)
        if status is None:
            return
        how = how_it_ended(status)
        log.error("process died", process="template", how=how)
        if self._places.phase is Phase.STARTING and self._forks.deaths >= START_DEATHS:
            reason = take_reason(self._node.runtime, "template", 0) or UNSAID
            raise StartError(f"the template does not start: {self._forks.deaths} times {how}; {reason}")

    def _on_report(self, frame: bytes) -> None:
        try:
            report = ProcessMessage.read(frame)
        except (ValueError, TypeError):
            log.error("cannot read a report", frame=frame[:100])
            return
        if report.event == "upgrade":
            if self._places.phase is Phase.SERVING:
                self._upgrade.begin(time.monotonic())
        else:
            self._places.on_report(report, time.monotonic())

    def _stop(self) -> None:
        """Stop all processes, in an order in which each role outlives those that depend on it."""
        self._upgrade.stop()
        self._places.stop()
        patience = 0.0
        for roles, seconds in STOP_ORDER:
            group = [child for child in self._places.children if child.role in roles]
            patience, begun_at = patience + seconds, time.monotonic()
            self._end(group, signal.SIGTERM, patience)
            patience = max(0.0, patience - (time.monotonic() - begun_at))
            for child in self._end(group, signal.SIGKILL, KILL_SECONDS):
                log.error("process did not end", **facts_of(child))

    def _end(self, group: Iterable[Child], number: signal.Signals, patience: float) -> list[Child]:
        """Signal the live processes of a group and wait for them to end. Returns those that are still alive."""
        alive = [child for child in group if child.process]
        for child in alive:
            if number is signal.SIGKILL:
                log.warning("process killed, it took too long to stop", **facts_of(child))
            child.send(number)
        deadline = time.monotonic() + patience
        while alive and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())
            alive = [child for child in alive if child.process]
        return alive
