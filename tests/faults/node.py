"""The broker on trial: a way in for its clients, a way to hurt it, and what it says of itself."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ops.administration.processes import Processes
from ops.claim import Pointer
from penstock.memory.gauges import READY, Gauges
from penstock.node.node import Role
from tests.broker import Broker
from tests.raw import Client
from tests.waiting import wait_for

ACCEPTORS = 2
SHARDS = 2
BACK_SECONDS = 60.0
"""For a process to serve again: its restart is put off for some seconds when it was killed often."""
Place = tuple[Role, int]
PLACES: tuple[Place, ...] = (
    *(("acceptor", index) for index in range(ACCEPTORS)),
    *(("shard", index) for index in range(SHARDS)),
    ("router", 0),
)


class Counts(NamedTuple):
    """Messages, and octets of their bodies."""

    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int


class Held(NamedTuple):
    """What waits in its acceptors, or between them and its shards."""

    sessions: int
    parked_bytes: int
    paused_connections: int
    in_flight: int


class Node:
    """A broker with two acceptors and two shards, and a vhost of its own: so nobody reaches another broker by mistake.

    Clients that come while it is down wait at the door.
    """

    def __init__(self, directory: Path, *assignments: str, environment: Mapping[str, str] | None = None) -> None:
        self.vhost = f"faults-{os.getpid()}-{directory.name}"
        self.broker = Broker(directory, *assignments, acceptors=ACCEPTORS, shards=SHARDS, environment=environment)
        self.moved: Counter[str] | None = None
        """Where queues move: how often each one began or ended to do so; odd while it does."""
        self._door = threading.Event()
        self._killed: set[int] = set()
        self._open()
        self.broker.call("vhost_add", name=self.vhost)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.broker.call("permission_set", user="guest", vhost=self.vhost, **everything)

    @property
    def data(self) -> Path:
        return self.broker.directory / "data"

    def _open(self) -> None:
        pointer = Pointer.load(self.data)
        assert pointer
        self._pointer = pointer
        self._gauges = Gauges.open(pointer.gauges, writable=False)
        self._door.set()

    def _shut(self) -> None:
        self._door.clear()
        self._gauges.close()

    def connect(self, **options: Any) -> Client:
        """A client of it. HungUp, OSError where it dies on the way."""
        assert self._door.wait(2 * BACK_SECONDS), "the node did not come back"
        return Client.connect(self.broker.address, vhost=self.vhost, **options)

    def counts(self) -> dict[str, Counts]:
        """Of each queue, by its gauges."""
        read = (self._gauges.queue_read(slot) for slot in self._gauges.queue_slots())
        return {
            queue.name: Counts(queue.ready, queue.ready_bytes, queue.unacked, queue.unacked_bytes)
            for queue in read
            if queue and queue.vhost == self.vhost
        }

    def held(self) -> Held:
        """By its gauges, which `penstock status` reads."""
        gauges = self._gauges
        counters = [gauges.counters_read("acceptor", index) for index in range(ACCEPTORS)]
        return Held(
            sum(counter.held_sessions for counter in counters),
            sum(counter.parked_bytes for counter in counters),
            sum(counter.paused_connections for counter in counters),
            sum(gauges.pair_in_flight(acceptor, shard) for acceptor in range(ACCEPTORS) for shard in range(SHARDS)),
        )

    def turn(self) -> None:
        """Until each acceptor and shard has been round its loop: it has answered something."""
        processes = Processes(self.data)
        for role, index in PLACES:
            if role != "router":
                processes.ask(role, index, "held" if role == "acceptor" else "queues")

    def observe_moves(self) -> None:
        """From now on queues may move."""
        if self.moved is None:
            self.moved = Counter()

    def wait_moved(self) -> None:
        """Until no queue moves."""

        def still() -> bool:
            try:
                return not self.broker.call("placement", vhost=None)["moves"]
            except (OSError, ValueError, AssertionError):
                return False  # the router is not there

        wait_for(still, 2 * BACK_SECONDS, "moves end")

    # Faults

    def kill(self, *places: Place) -> None:
        """SIGKILL some of its processes, as nearly as can be at once. One that is being started is let off."""
        for role, index in places:
            pid = self._gauges.process_read(role, index).pid
            if pid:
                self._killed.add(pid)
                with suppress(ProcessLookupError):  # it is dead, and the gauges do not say so yet
                    os.kill(pid, signal.SIGKILL)

    def pid(self, role: Role, index: int) -> int:
        """Of the present life of a process; 0 if there is none."""
        return self._gauges.process_read(role, index).pid

    def lives(self) -> list[int]:
        """Which life each of its processes is in."""
        return [self._gauges.process_read(role, index).incarnation for role, index in PLACES]

    def wait_ready(self) -> None:
        """Until each of its processes has come back and serves."""

        def away() -> list[str]:
            places = [self._gauges.process_read(role, index) for role, index in PLACES]
            return [
                f"{place.role} {place.index}"
                for place in places
                if place.state != READY or not place.pid or place.pid in self._killed
            ]

        wait_for(lambda: not away(), BACK_SECONDS, f"all processes ready:\n{self.broker.log[-3000:]}")

    def kill_all(self) -> None:
        """SIGKILL the whole node. It stays down."""
        self._shut()
        self.broker.kill_all()
        shutil.rmtree(self._pointer.runtime, ignore_errors=True)  # the next start finds it only if the disk kept it

    def stop(self) -> None:
        """End it in order. AssertionError as for `Broker.stop`."""
        self._shut()
        self.broker.stop()

    def start(self) -> None:
        """Start it on the data that it left."""
        self.broker.start()
        self._open()

    def end(self) -> None:
        """Whatever state it is in, nothing of it is left."""
        self._door.set()
        self.broker.kill_all()
