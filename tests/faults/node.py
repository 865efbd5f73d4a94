"""The broker under test: access for its clients, ways to harm it, and its gauges."""

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
"""The longest time until a process serves again: restarts are delayed by some seconds if it was killed often."""
Place = tuple[Role, int]
PLACES: tuple[Place, ...] = (
    *(("acceptor", index) for index in range(ACCEPTORS)),
    *(("shard", index) for index in range(SHARDS)),
    ("router", 0),
)


class Counts(NamedTuple):
    """Numbers of messages, and of bytes of their bodies."""

    ready: int
    ready_bytes: int
    unacked: int
    unacked_bytes: int


class Held(NamedTuple):
    """Numbers about publishes that wait in the acceptors or are in flight to the shards."""

    channels: int
    parked_bytes: int
    paused_connections: int
    in_flight: int


class Node:
    """A broker with two acceptors and two shards, and with a vhost of its own, so that no client reaches another broker
    by mistake.

    Clients that connect while the node is down wait until it is back.
    """

    def __init__(self, directory: Path, *assignments: str, environment: Mapping[str, str] | None = None) -> None:
        self.vhost = f"faults-{os.getpid()}-{directory.name}"
        self.broker = Broker(directory, *assignments, acceptors=ACCEPTORS, shards=SHARDS, environment=environment)
        self.moved: Counter[str] | None = None
        """If queues move, the number of beginnings and ends of each one's moves: odd during a move."""
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
        """Return a client of the node. HungUp or OSError if the node dies meanwhile."""
        assert self._door.wait(2 * BACK_SECONDS), "the node did not come back"
        return Client.connect(self.broker.address, vhost=self.vhost, **options)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each queue, from its gauges."""
        read = (self._gauges.queue_read(slot) for slot in self._gauges.queue_slots())
        return {
            queue.name: Counts(queue.ready, queue.ready_bytes, queue.unacked, queue.unacked_bytes)
            for queue in read
            if queue and queue.vhost == self.vhost
        }

    def held(self) -> Held:
        """Return the numbers of waiting publishes, from the gauges that `penstock status` reads."""
        gauges = self._gauges
        counters = [gauges.counters_read("acceptor", index) for index in range(ACCEPTORS)]
        return Held(
            sum(counter.held_channels for counter in counters),
            sum(counter.parked_bytes for counter in counters),
            sum(counter.paused_connections for counter in counters),
            sum(gauges.pair_in_flight(acceptor, shard) for acceptor in range(ACCEPTORS) for shard in range(SHARDS)),
        )

    def turn(self) -> None:
        """Wait until each acceptor and shard has completed a turn of its loop, shown by its answer to a request."""
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
        """Kill some of the node's processes, as simultaneously as possible. One that is being started is spared."""
        for role, index in places:
            pid = self._gauges.process_read(role, index).pid
            if pid:
                self._killed.add(pid)
                with suppress(ProcessLookupError):  # the process is dead, but the gauges do not show it yet
                    os.kill(pid, signal.SIGKILL)

    def pid(self, role: Role, index: int) -> int:
        """Return the pid of a process; 0 if it is not running."""
        return self._gauges.process_read(role, index).pid

    def incarnations(self) -> list[int]:
        """Return the incarnation of each of the node's processes."""
        return [self._gauges.process_read(role, index).incarnation for role, index in PLACES]

    def wait_ready(self) -> None:
        """Wait until each killed process has been replaced and all serve."""

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
        """Stop the node in order. AssertionError as for `Broker.stop`."""
        self._shut()
        self.broker.stop()

    def start(self) -> None:
        """Start the node on the data that it left."""
        self.broker.start()
        self._open()

    def end(self) -> None:
        """End the node whatever its state, and leave no process behind."""
        self._door.set()
        self.broker.kill_all()
