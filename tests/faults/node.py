"""The broker on trial: access for its clients, ways to hurt it, and its gauges."""

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
"""How long a process may take to serve again: its restart is delayed by some seconds if it was killed often."""
Place = tuple[Role, int]
PLACES: tuple[Place, ...] = (
    *(("acceptor", index) for index in range(ACCEPTORS)),
    *(("shard", index) for index in range(SHARDS)),
    ("router", 0),
)


class Counts(NamedTuple):
    """Messages, and bytes of their bodies."""

    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int


class Held(NamedTuple):
    """Publishes that wait in its acceptors, or are in flight to its shards."""

    sessions: int
    parked_bytes: int
    paused_connections: int
    in_flight: int


class Node:
    """A broker with two acceptors and two shards, and a vhost of its own, so that no client reaches another broker by
    mistake.

    Clients that connect while it is down wait until it is back.
    """

    def __init__(self, directory: Path, *assignments: str, environment: Mapping[str, str] | None = None) -> None:
        self.vhost = f"faults-{os.getpid()}-{directory.name}"
        self.broker = Broker(directory, *assignments, acceptors=ACCEPTORS, shards=SHARDS, environment=environment)
        self.moved: Counter[str] | None = None
        """If queues move: how often each one has begun or ended to do so; odd while it moves."""
        self._door = threading.Event()
        self._killed: set[int] = set()
        self._open()
        self.broker.call("vhost_add", name=self.vhost)
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.broker.call("permission_set", user="guest", vhost=self.vhost, **everything)

    @property
    def data(self) -> Path:
        """The node's data directory."""
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
        """Return a client of it. HungUp or OSError if it dies meanwhile."""
        assert self._door.wait(2 * BACK_SECONDS), "the node did not come back"
        return Client.connect(self.broker.address, vhost=self.vhost, **options)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each queue, by its gauges."""
        read = (self._gauges.queue_read(slot) for slot in self._gauges.queue_slots())
        return {
            queue.name: Counts(queue.ready, queue.ready_bytes, queue.unacked, queue.unacked_bytes)
            for queue in read
            if queue and queue.vhost == self.vhost
        }

    def held(self) -> Held:
        """Return how much waits, by the gauges that `penstock status` reads."""
        gauges = self._gauges
        counters = [gauges.counters_read("acceptor", index) for index in range(ACCEPTORS)]
        return Held(
            sum(counter.held_channels for counter in counters),
            sum(counter.parked_bytes for counter in counters),
            sum(counter.paused_connections for counter in counters),
            sum(gauges.pair_in_flight(acceptor, shard) for acceptor in range(ACCEPTORS) for shard in range(SHARDS)),
        )

    def turn(self) -> None:
        """Wait until each acceptor and shard has completed a turn of its loop: it has answered a question."""
        processes = Processes(self.data)
        for role, index in PLACES:
            if role != "router":
                processes.ask(role, index, "held" if role == "acceptor" else "queues")

    def observe_moves(self) -> None:
        """Count moves from now on."""
        if self.moved is None:
            self.moved = Counter()

    def wait_moved(self) -> None:
        """Wait until no queue moves."""

        def still() -> bool:
            try:
                return not self.broker.call("placement", vhost=None)["moves"]
            except (OSError, ValueError, AssertionError):
                return False  # the router is not running

        wait_for(still, 2 * BACK_SECONDS, "moves end")

    # Faults

    def kill(self, *places: Place) -> None:
        """Kill some of its processes, as nearly as possible at once. A process that is being started is spared."""
        for role, index in places:
            pid = self._gauges.process_read(role, index).pid
            if pid:
                self._killed.add(pid)
                with suppress(ProcessLookupError):  # it is dead, and the gauges do not show it yet
                    os.kill(pid, signal.SIGKILL)

    def pid(self, role: Role, index: int) -> int:
        """Return the pid of a process; 0 if it is not running."""
        return self._gauges.process_read(role, index).pid

    def lives(self) -> list[int]:
        """Return the incarnation of each of its processes."""
        return [self._gauges.process_read(role, index).incarnation for role, index in PLACES]

    def wait_ready(self) -> None:
        """Wait until each of its processes has come back and serves."""

        def away() -> list[str]:
            places = [self._gauges.process_read(role, index) for role, index in PLACES]
            return [
                f"{place.role} {place.index}"
                for place in places
                if place.state != READY or not place.pid or place.pid in self._killed
            ]

        wait_for(lambda: not away(), BACK_SECONDS, f"all processes ready:\n{self.broker.log[-3000:]}")

    def kill_all(self) -> None:
        """Kill the whole node. It stays down."""
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
        """End it whatever its state; nothing of it is left."""
        self._door.set()
        self.broker.kill_all()
