"""The state of a joined node: settings, gauges, running processes, and the messages in line between them."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from structlog.testing import capture_logs

from acceptor.clients.channel_state import ChannelState
from acceptor.clients.connection_state import ConnectionState
from acceptor.core import AcceptorCore
from penstock.bus import to_acceptor
from penstock.memory.gauges import DEAD, READY, UNSTARTED, Gauges
from penstock.node import clock
from penstock.node.clock import Clock
from penstock.node.node import Role
from penstock.settings import Settings
from penstock.settings.sections import FlowSettings
from penstock.telemetry.schema import VERSION, Table
from penstock.text.utf8 import readable
from router.model.topology import Queue
from router.storage.store import Store
from shard.core import ShardCore
from shard.queue.queue_state import QueueState
from tests.penstock.telemetry.reading import check
from tests.simulator.joined.client import Client
from tests.simulator.joined.processes import Acceptor, Process, Shard
from tests.simulator.joined.router import MemoryStore, Router

QUEUES = 200
Frames = list[Any]


class Running:
    """Acceptors and shards, the router and the gauges, and all messages in flight between them."""

    place: str | None = None
    """Where the node's directory is made; None: where temporary files usually are."""

    def __init__(
        self, acceptors: int, shards: int, flow: dict[str, Any] | None, stores: bool, spools: bool, spare: int = 0,
        renews: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        """With `renews`, each acceptor may have a successor beside it."""
        self.absent = {*range(shards, shards + spare)}
        """The places for shards that have none."""
        self.stores = stores
        self.spools = spools
        self.places = shards + spare
        self.commits = True
        self.exits = ExitStack()
        directory = Path(self.exits.enter_context(TemporaryDirectory(dir=self.place)))
        self.logs: list[Any] = self.exits.enter_context(capture_logs())
        self.settings = Settings(
            acceptors=acceptors, shards=shards, data=directory, flow=FlowSettings(**(flow or {})), **options
        )  # fmt: skip
        self.epoch = 1
        self.gauges = self.new_gauges()
        self.stored = directory / "shards"
        self.now = 100.0
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.incarnations: dict[tuple[str, int], int] = defaultdict(int)
        self.memory_store = MemoryStore()
        self.router = self.new_router()
        self.router_runs = True
        self.clients: dict[ConnectionState, Client] = {}
        self.up: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        # Turns of dead acceptors, apart from their successors' turns.
        self.last_words: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        self.across: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        self.down: dict[tuple[int, int], deque[Frames]] = defaultdict(deque)
        self.strayed: dict[int, list[to_acceptor.Flow]] = defaultdict(list)
        self.shards: list[Shard | None] = [None] * self.places
        self.expected: dict[int, int] = {}
        """The incarnation of each shard that turns to it are for; none for a shard that is dead."""
        self.homes: dict[int, int] = {}
        self.acceptors: list[Acceptor | None] = [None] * (acceptors * (1 + renews))
        """The acceptors by their seats: those of an index have that seat and, beside another, `index + acceptors`."""
        self.followers: dict[bytes, Process] = {}
        """The processes that follow the router, by their identities."""

    def new_gauges(self) -> Gauges:
        """Return the gauges of an epoch, in place of those of the one before."""
        settings = self.settings
        path = settings.data / "gauges"
        path.unlink(missing_ok=True)
        return self.exits.enter_context(
            Gauges.create(
                path, epoch=self.epoch, acceptors=settings.acceptors, shards=self.places, queues=QUEUES,
                pid=os.getpid(),
            )
        )  # fmt: skip

    def open_router_store(self) -> Store:
        """Open the store of the router."""
        return self.memory_store

    def new_router(self) -> Router:
        """Return a new incarnation of the router."""
        settings = self.settings
        return Router(self.open_router_store(), self.epoch, settings.shards, QUEUES, self.gauges, self.clock())

    def end_router(self) -> None:
        """Do what follows from the end of the router's incarnation."""

    @property
    def version(self) -> int:
        """The version of the router's topology."""
        return self.router.core.version

    def record(self, table: Table, ts: int, facts: dict[str, Any]) -> None:
        """Record a row of telemetry; AssertionError if it does not match its declaration."""
        common = {"v": VERSION, "ts": ts, "node": "n", "epoch": 1, "writer": "w", "seq": 1, "rows_lost": 0}
        check(table.name, {**common, **readable(facts)})
        self.rows[table.name].append({"ts": ts, **facts})

    def clock(self) -> Clock:
        """Return the clock of the router."""
        return clock.own()

    def microseconds(self) -> int:
        """Return the time in microseconds."""
        return int(self.now * 1_000_000)

    def core(self, acceptor: int) -> AcceptorCore:
        """Return the core of the acceptor in a seat."""
        process = self.acceptors[acceptor]
        assert process is not None
        return process.core

    def index_of(self, seat: int) -> int:
        """Return the index of the acceptors that have a seat."""
        return seat % self.settings.acceptors

    def shard(self, index: int) -> ShardCore:
        """Return the core of a running shard."""
        process = self.shards[index]
        assert process is not None
        return process.core

    def running_acceptors(self) -> Iterator[tuple[int, Acceptor]]:
        """Yield the running acceptors with their seats."""
        return ((index, process) for index, process in enumerate(self.acceptors) if process is not None)

    def running_shards(self) -> Iterator[tuple[int, Shard]]:
        """Yield the running shards with their indexes."""
        return ((index, process) for index, process in enumerate(self.shards) if process is not None)

    def acceptors_and_shards(self) -> list[Acceptor | Shard]:
        """Return all running acceptors and shards."""
        return [*filter(None, self.acceptors), *filter(None, self.shards)]

    def queue(self, name: str) -> Queue:
        """Return the authority's record of a queue."""
        queue = self.router.topology.queue("/", name)
        assert queue is not None, name
        return queue

    def state(self, name: str) -> QueueState:
        """Return the shard's state of a queue."""
        record = self.queue(name)
        return self.shard(record.shard).state.queues[record.queue_id]

    def incarnation_of(self, shard: int) -> int:
        """Return the incarnation of a shard, 0 if it is not running."""
        process = self.shards[shard]
        return 0 if process is None else process.incarnation

    def show_processes(self) -> None:
        """Write the running processes to the gauges, as the supervisor does."""
        places: list[tuple[Role, int, Acceptor | Shard | None]] = [
            *(("acceptor", index, self.acceptors[index]) for index in range(self.settings.acceptors)),
            *(("shard", index, process) for index, process in enumerate(self.shards)),
        ]
        for role, index, process in places:
            state, incarnation = (
                (DEAD, self.incarnations[role, index]) if process is None else (READY, process.incarnation)
            )
            if role == "shard" and index in self.absent:
                state = UNSTARTED
            self.gauges.process_write(
                role, index, pid=1, incarnation=incarnation, state=state, started_us=0, restarts=0
            )  # fmt: skip

    def channels(self) -> Iterator[ChannelState]:
        """Yield all channels, including those of closed connections that still have publishes waiting."""
        for _, process in self.running_acceptors():
            for connection in process.core.state.connections.values():
                yield from connection.channels.values()
            yield from process.core.orphans.channels
