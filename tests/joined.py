"""A node without processes: acceptor cores, shard cores and the router's authority, joined by lists.

Nothing moves by itself. Messages between them stay in lists, in order, until the test delivers them (or `settle`
delivers all of them); the test decides which broadcasts are lost, which processes die and what time it is. Connections
read and write bytes as they would through a socket.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from structlog.testing import capture_logs

from acceptor.amqp.channel import Channel
from acceptor.amqp.connection import Connection
from acceptor.clients.connection_stage import OPEN
from acceptor.clients.parked import ParkedRun
from acceptor.clients.spool import Spool
from acceptor.core import AcceptorCore
from acceptor.links.outgoing import SETTLING_SECONDS
from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation, Operations
from penstock.bus.router_client import Follower
from penstock.memory.gauges import DEAD, READY, Gauges
from penstock.node import clock
from penstock.node.clock import Clock
from penstock.node.node import Role
from penstock.settings import Settings
from penstock.settings.sections import FlowSettings
from penstock.telemetry.schema import VERSION, Table
from penstock.text.utf8 import readable
from router.authority.governing import delete_policy, set_policy
from router.authority.ledger import Step
from router.authority.operations import Outcome
from router.core import SNAPSHOT
from router.model.topology import Policy, Queue
from router.storage.recent import Recent
from shard.contents.errors import StoreError
from shard.contents.segment_cy import Segment
from shard.core import ShardCore
from shard.moving.carrying import Carrier
from shard.queue.copying import remove_all
from shard.queue.queue_state import QueueState
from shard.queue.saturation import Stop
from shard.recovered import Recovered
from shard.store.journal import Commit, Journal
from shard.store.store import Store
from shard.store.stored import TRANSACTION
from shard.transactions.prepared import Part
from shard.turns.link import incarnation_of
from tests.frames import (
    BODY,
    CARRIES_CONTENT,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    Event,
    method_frame,
    parse_header,
    parse_method,
    publish_frames,
)
from tests.penstock.telemetry.reading import check
from tests.raw import CAPABILITIES
from tests.router.making import Asked, rabbit_hash

QUEUES = 200
STORE_BYTES = 64 * 1024 * 1024
PROCESSES = 8
WRITE_HIGH_BYTES = 32 * 1024
"""Bytes that may wait for a client that reads nothing before its acceptor is informed."""


class Socket:
    """A socket that records the calls of its connection. While it is paused, `drips` bytes may still be read."""

    def __init__(self) -> None:
        self.reads = True
        self.drips = 0
        self.pauses = 0
        self.receive_buffer = 0
        self.write_buffer = 0
        self.overfull = False
        self.filled = False
        self.waits = 0
        self.closed = False

    def pause_reading(self) -> None:
        self.pauses += 1
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True
        self.drips = 0

    def drip(self, nbytes: int) -> None:
        self.drips = nbytes

    def limit_receive_buffer(self, nbytes: int) -> None:
        self.receive_buffer = nbytes

    def limit_write_buffer(self, nbytes: int) -> None:
        self.write_buffer = nbytes

    def is_overfull(self) -> bool:
        return self.overfull

    def is_filled(self) -> bool:
        return self.filled

    def unsent(self) -> int:
        return self.waits

    def finish(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def lets(self, nbytes: int) -> int:
        """Return how many of `nbytes` bytes may be read now."""
        if self.closed:
            return 0
        return nbytes if self.reads else min(nbytes, self.drips)


class Client:
    """A client of one acceptor. Its output stays in `unread` until the acceptor reads it, up to `most` bytes at once.
    `fills`: unread output fills the kernel's buffer.

    `largest_charge` is the largest increase, by one read, of the memory kept for the client. A `deaf` client reads
    nothing: its input collects in `untaken`.
    """

    def __init__(
        self, node: Node, acceptor: int, properties: dict[str, Any], capabilities: dict[str, bool], user: str = "guest"
    ) -> None:
        self.node = node
        self.acceptor = acceptor
        self.user = user
        self.socket = Socket()
        self.properties = {"product": "penstock tests", **properties, "capabilities": capabilities}
        self.connection: Connection = node.core(acceptor).connect(self.socket, "127.0.0.1:49152", "127.0.0.1")
        self.unread: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self.rest = b""
        self.events: dict[int, deque[Event]] = defaultdict(deque)
        self.heartbeats = 0
        self.data = b""
        self.header = b""
        self.content: dict[int, tuple[Event, int | None]] = {}
        self.on_event: Callable[[Event], bool] = lambda event: False
        self.most = 1 << 30
        self.fills = False
        self.largest_charge = 0
        self.deaf = False
        self.untaken = b""

    # Out

    def write(self, data: bytes, when_read: Callable[[], None] | None = None) -> None:
        """Write bytes; `when_read` is called when the acceptor has read them."""
        self.unread.append((data, when_read))
        self.look_at_buffer()

    def look_at_buffer(self) -> None:
        """Update whether the kernel's buffer is full."""
        if self.fills:
            self.socket.filled = bool(self.unread)

    def send(self, name: str, channel: int = 0, when_read: Callable[[], None] | None = None, **arguments: Any) -> None:
        """Write a method."""
        self.write(method_frame(name, channel, **arguments), when_read)

    def publish(
        self, channel: int, body: bytes, exchange: str = "", routing_key: str = "",
        when_read: Callable[[], None] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Write a publish with its content."""
        self.write(publish_frames(channel, body, exchange, routing_key, **options), when_read)

    def log_in(self, vhost: str = "/", heartbeat: int = 0) -> None:
        """Write the whole handshake."""
        self.write(PROTOCOL_HEADER)
        self.send(
            "connection.start-ok", client_properties=self.properties, mechanism="PLAIN",
            response=b"\0%s\0guest" % self.user.encode(), locale="en_US",
        )  # fmt: skip
        self.send("connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=heartbeat)
        self.send("connection.open", vhost=vhost)

    def call(self, name: str, channel: int = 0, **arguments: Any) -> Event:
        """Send a method, let everything settle, and return its -ok. AssertionError with the events if there is none."""
        self.send(name, channel, **arguments)
        self.node.settle()
        return self.take(f"{name}-ok", channel)

    # In

    def take(self, name: str, channel: int = 0) -> Event:
        """Remove and return the first event with a name on a channel, leaving other events in line."""
        line = self.events[channel]
        for event in line:
            if event.name == name:
                line.remove(event)
                return event
        raise AssertionError(f"no {name} on channel {channel} but {[*line]}, on channel 0 {[*self.events[0]]}")

    def names(self, channel: int = 0) -> list[str]:
        """Return the names of the remaining events on a channel."""
        return [event.name for event in self.events[channel]]

    def read(self, most: int = 1 << 30) -> bool:
        """Have the acceptor read up to `most` bytes; return whether it did. Bytes it does not use stay in `rest`."""
        core = self.node.core(self.acceptor)
        most = self.socket.lets(min(most, self.most))
        if not self.unread or not most or core.state.behind():
            return False
        data, done = b"", []
        while self.unread and len(data) < most:
            more, when_read = self.unread.popleft()
            data += more
            done.append(when_read)
        if len(data) > most:
            self.unread.appendleft((data[most:], done.pop()))
            data = data[:most]
        self.socket.drips = 0
        self.look_at_buffer()
        for when_read in done:
            if when_read is not None and self.connection.stage is OPEN:
                when_read()
        core.state.now = self.node.now
        buffer = bytearray(self.rest + data)
        before = self.connection.kept.held
        used = self.connection.receive(buffer, len(buffer))
        self.largest_charge = max(self.largest_charge, self.connection.kept.held - before)
        self.rest = bytes(buffer[used:])
        return True

    def take_bytes(self, chunks: list[Any]) -> None:
        """Receive bytes at the socket; process them at once unless the client is deaf."""
        if not self.deaf:
            self.hear(chunks)
            return
        self.untaken += b"".join(chunks)
        self.socket.waits = len(self.untaken)
        core = self.node.core(self.acceptor)
        if self.connection.writable and self.socket.waits > WRITE_HIGH_BYTES:
            core.delivery.writable(self.connection, False)
        if not self.connection.writable:
            core.budgets.outputs.wrote(self.connection)

    def listen(self, most: int = 1 << 30) -> None:
        """Read up to `most` of the bytes that wait for the client; once all are read, it is no longer deaf."""
        taken, self.untaken = self.untaken[:most], self.untaken[most:]
        self.socket.waits = len(self.untaken)
        self.hear([taken])
        if not self.untaken:
            self.deaf = False
            if not self.connection.writable:
                self.node.core(self.acceptor).delivery.writable(self.connection, True)

    def hear(self, chunks: list[Any]) -> None:
        """Process bytes from the acceptor: whole frames, or parts of them."""
        self.data += b"".join(chunks)
        if len(self.header) < 8 and self.data.startswith(b"AMQP"):
            self.header, self.data = self.data[:8], self.data[8:]
        at = 0
        while len(self.data) - at >= 8:
            kind, channel = self.data[at], int.from_bytes(self.data[at + 1 : at + 3], "big")
            size = int.from_bytes(self.data[at + 3 : at + 7], "big")
            if len(self.data) - at < size + 8:
                break
            self.frame(kind, channel, self.data[at + 7 : at + 7 + size])
            at += size + 8
        self.data = self.data[at:]

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Process a frame."""
        if kind == METHOD:
            event = parse_method(channel, payload)
            if event.name in CARRIES_CONTENT:
                self.content[channel] = event, None
            else:
                self.arrived(event)
        elif kind in (HEADER, BODY):
            event, size = self.content.pop(channel)
            if kind == HEADER:
                size, event.properties = parse_header(payload)
            else:
                event.body += payload
            if len(event.body) == size:
                self.arrived(event)
            else:
                self.content[channel] = event, size
        else:
            self.heartbeats += 1

    def arrived(self, event: Event) -> None:
        """Keep an event unless `on_event` handles it."""
        if not self.on_event(event):
            self.events[event.channel].append(event)

    def lose(self) -> None:
        """Lose the socket."""
        self.socket.closed = True
        self.node.clients.pop(self.connection, None)
        self.node.core(self.acceptor).state.dirty.pop(self.connection, None)
        self.connection.lost()


class Acceptor:
    """One incarnation of an acceptor. `meets` has the incarnation of each shard that it is connected to, 0 for none."""

    def __init__(self, node: Node, index: int, incarnation: int) -> None:
        self.core = AcceptorCore(index, incarnation, node.gauges, node.settings, "penstock@here")
        self.core.state.now = node.now
        self.core.state.flush = node.flush
        self.core.state.record = node.record
        self.requesting = self.core.state
        if node.spools:
            flow = node.settings.flow
            self.core.state.spool = Spool(node.settings.data, flow.parked_memory, flow.spool_limit)
        self.incarnation = incarnation
        self.identity = b"acceptor.%d.%d" % (index, incarnation)
        self.meets = [0] * node.settings.shards
        self.events: deque[tuple[str, int, int]] = deque()
        self.changes: deque[bytes] = deque()
        self.replies: deque[bytes] = deque()
        self.asked: list[bytes] = []
        self.router = Follower(self.core.load, self.core.apply, self.asked.append)


class Book:
    """The messages that entered a queue, and the number that its shard reported as refused, in one incarnation of its
    home, or of several homes if it has moved.

    The first `safe` of `entered` outlive the home. The next incarnation knows that the first `written` existed; others
    were gone before. The queue had `recovered` messages from the start.
    """

    def __init__(self) -> None:
        self.entered: list[bytes] = []
        self.safe = 0
        self.written = 0
        self.rejected = 0
        self.recovered = 0


class Shard:
    """One incarnation of a shard. `books` has the books of the queues whose home it is, by queue id; `handed_on` those
    of queues that have moved away. `known` is the last turn of each link that was safe from the start. `published` has
    the bodies of each PUBLISH, `dequeued` the bodies reported to acceptors as having left a queue. `parts` has the
    shard's parts of transactions, by id.
    """

    def __init__(self, node: Node, index: int, incarnation: int) -> None:
        self.store: Store | None = None
        self.writing: tuple[Commit, list[tuple[Book, int]]] | None = None
        self.known: dict[bytes, int] = {}
        self.core = self.make_core(node, index, incarnation)
        self.requesting = self.core.state
        self.core.state.incarnation = incarnation
        self.core.doing.begins(incarnation)
        (node.stored / str(index)).mkdir(parents=True, exist_ok=True)
        remove_all(node.stored / str(index))
        self.carrier = Carrier(self.core.moving, node.stored, at_once)
        self.begin_read = self.read_at_once
        if incarnation > 1:
            self.core.await_acceptors((place, other.incarnation) for place, other in node.running_acceptors())
        self.incarnation = incarnation
        self.events: deque[tuple[str, int, int]] = deque()
        self.changes: deque[bytes] = deque()
        self.replies: deque[bytes] = deque()
        self.asked: list[bytes] = []
        self.router = Follower(self.core.load, self.core.apply, self.asked.append)
        self.books: dict[int, Book] = defaultdict(Book)
        self.handed_on: dict[int, Book] = {}
        self.read: dict[bytes, deque[tuple[int, list[tuple[int, int, bytes]], list[bytes]]]] = defaultdict(deque)
        self.parts: dict[bytes, Part] = {}
        self.published: dict[tuple[bytes, int, int], list[bytes]] = {}
        self.dequeued: dict[tuple[int, bytes, int, int, int], bytes] = {}

    def make_core(self, node: Node, index: int, incarnation: int) -> ShardCore:
        """Return a core, with the contents of the store if there is one."""
        if not node.stores:
            return ShardCore(index, node.gauges, node.settings, node.microseconds(), incarnation)
        self.store = Store(node.stored / str(index), STORE_BYTES, durable=False, epoch=1)
        journal = Journal(self.store.read)
        recovered = Recovered(self.store, journal)
        core = ShardCore(
            index, node.gauges, node.settings, node.microseconds(), self.store.starts, journal, recovered
        )  # fmt: skip
        records = self.store.links()
        self.known = {identity: bus.unpack(record)[0] for identity, record in records.items()}
        core.recover_links(records)
        return core

    def read_ahead(self) -> None:
        """Read the segments that consumers will soon want."""
        reads, self.core.paging.reads = self.core.paging.reads, []
        for queue, segments in reads:
            self.begin_read(queue, segments)

    def read_at_once(self, queue: QueueState, segments: list[Segment]) -> None:
        """Read segments of a queue."""
        assert self.core.state.journal is not None
        batches = [self.core.state.journal.load(queue.id, segment) for segment in segments]
        self.core.paging.were_read(queue, segments, batches)

    def entered(self, id: int) -> list[bytes]:
        """Return the bodies that entered a queue."""
        return self.books[id].entered

    def sizes(self) -> list[tuple[Book, int]]:
        """Return the number of messages entered in each book."""
        return [(book, len(book.entered)) for book in self.books.values()]

    def commit(self) -> bool:
        """Write the commit that was handed over, or hand over the next one; return whether there was one."""
        if self.writing is None:
            commit = self.core.commits.hand_over()
            if commit is not None:
                self.writing = commit, self.sizes()
            return commit is not None
        assert self.store is not None
        commit, sizes = self.writing
        self.writing = None
        self.store.write(commit)
        were_written(sizes)
        self.core.commits.written()
        return True

    def end(self, written: bool) -> None:
        """End this incarnation; with `written`, the commit handed over still reaches the store."""
        if self.store is None:
            return
        if self.writing is not None and written:
            commit, sizes = self.writing
            self.store.write(commit)
            were_written(sizes)
        self.store.close()

    def hand_on(self, id: int, other: Shard) -> None:
        """Hand a queue's book to another shard, whose store has the whole queue."""
        book = self.handed_on[id] = other.books[id] = self.books.pop(id, None) or Book()
        book.safe = book.written = len(book.entered)

    def queue(self, id: int) -> QueueState | None:
        """Return a queue whose home this is, even while only the router knows that."""
        arriving = self.core.moving.arriving.get(id)
        return self.core.state.queues.get(id) if arriving is None else arriving.queue

    def unsafe(self) -> set[tuple[int, bytes]]:
        """Return (queue id, body) of the messages that entered and that the next incarnation will not know."""
        return {(id, body) for id, book in self.books.items() for body in book.entered[book.safe :]}

    def note_safe(self) -> None:
        """Record the end of a turn: everything is safe if nothing remains to be written."""
        if all(link.safe == link.received for link in self.core.state.links.values()):
            for book, size in self.sizes():
                book.safe = size

    def note_rejected(self, id: int, count: int) -> None:
        """Record that the shard reports `count` messages refused by a queue, which may have moved meanwhile."""
        book = self.books[id] if id in self.books else self.handed_on[id]
        book.rejected += count

    def note_dequeued(self, identity: bytes, id: int, rows: list[int]) -> None:
        """Record that the shard reports messages to an acceptor as having left a queue."""
        for turn, index, first, count in zip(*[iter(rows)] * 4, strict=True):
            bodies = self.published[identity, turn, index]
            for row in range(first, first + count):
                assert (id, identity, turn, index, row) not in self.dequeued
                self.dequeued[id, identity, turn, index, row] = bodies[row]

    def note(self, identity: bytes, turn: int, operations: list[Operation], parts: list[Any]) -> None:
        """Record the contents of a turn until the shard enters it. Publishes of a transaction are recorded with its
        commit, which may be refused.
        """
        bodies: list[tuple[int, int, bytes]] = []
        done: list[bytes] = []
        commit, ends, prepared = -1, 0, -1
        for index, operation in enumerate(operations):
            if isinstance(operation, to_shard.Commit):
                commit, ends = index, index + operation.publishes
            elif isinstance(operation, to_shard.Prepare):
                prepared = index + operation.publishes
            elif isinstance(operation, to_shard.Decide | to_shard.Do):
                _, acceptor, incarnation = incarnation_of(identity)
                done.append(TRANSACTION.pack(self.core.state.gauges.epoch, acceptor, incarnation, operation.number))
            elif isinstance(operation, to_shard.Publish) and index > prepared:
                batch = bus.batch_at(parts, operation.part)
                rows = range(operation.first, operation.first + operation.messages)
                self.published[identity, turn, index] = [batch.record(row)[2] for row in rows]
                of = commit if index <= ends else -1
                bodies += [(of, id, batch.record(row)[2]) for row in rows for id in operation.queues]
        self.read[identity].append((turn, bodies, done))
        self.look()

    def note_of_shard(self, identity: bytes, turn: int, operations: list[Operation]) -> None:
        """Record the outcomes of transactions in another shard's turn."""
        outcomes = [operation for operation in operations if isinstance(operation, to_shard.Outcome)]
        done = [outcome.transaction for outcome in outcomes if outcome.commits]
        self.read[identity].append((turn, [], done))
        self.look()

    def look(self) -> None:
        """Enter in the books the turns received since the last call."""
        self.parts |= self.core.two_phase.parts
        for identity, turns in self.read.items():
            link = self.core.state.links.get(identity)
            while turns and link is not None and link.received >= turns[0][0]:
                turn, bodies, done = turns.popleft()
                for transaction in done:
                    self.note_done(transaction)
                verdicts = [verdict for verdict in link.verdicts if isinstance(verdict, to_acceptor.Refused)]
                refused = {verdict.commit for verdict in verdicts if verdict.turn == turn}
                for commit, id, body in bodies:
                    if commit not in refused and id in self.core.state.queues:
                        self.books[id].entered.append(body)

    def note_done(self, transaction: bytes) -> None:
        """Enter the shard's part of a transaction, now done, unless it was entered before."""
        part = self.parts.pop(transaction, None)
        for queues, _, batch in part.publishes if part is not None else ():
            for id in queues:
                if isinstance(id, int) and id in self.core.state.queues:
                    self.books[id].entered += [batch.record(row)[2] for row in range(batch.count)]


def were_written(sizes: list[tuple[Book, int]]) -> None:
    """Record that the books have been written up to these sizes."""
    for book, size in sizes:
        book.written = max(book.written, size)
        book.safe = max(book.safe, book.written)


def at_once(work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
    """Run `work` without a thread."""
    try:
        work()
    except StoreError as error:
        done(error)
    else:
        done(None)


Frames = list[Any]


class Node:
    """Acceptors and shards, the authority and the gauges, and all messages in flight between them.

    With `spools`, acceptors keep parked contents on disk. With `stores`, shards write persistent messages: as soon as
    possible or, if `commits` is unset, on request (`commit_shard`).
    """

    router_answers_at_once = True

    def __init__(
        self, acceptors: int = 1, shards: int = 1, flow: dict[str, Any] | None = None, stores: bool = False,
        spools: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.stores = stores
        self.spools = spools
        self.commits = True
        self.exits = ExitStack()
        directory = Path(self.exits.enter_context(TemporaryDirectory()))
        self.logs: list[Any] = self.exits.enter_context(capture_logs())
        self.settings = Settings(
            acceptors=acceptors, shards=shards, data=directory, flow=FlowSettings(**(flow or {})), **options
        )  # fmt: skip
        self.gauges = self.exits.enter_context(
            Gauges.create(
                directory / "gauges", epoch=1, acceptors=acceptors, shards=shards, queues=QUEUES, pid=os.getpid()
            )
        )
        self.stored = directory / "shards"
        self.now = 100.0
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.router = Asked(shards, QUEUES, self.clock())
        self.router_lives = True
        self.recent = Recent()
        self.version = 1
        self.gauges.set_topology_version(1)
        self.clients: dict[Connection, Client] = {}
        self.up: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        # Turns of dead acceptors, apart from their successors' turns.
        self.last_words: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        self.across: dict[tuple[int, int], deque[tuple[bytes, Frames]]] = defaultdict(deque)
        self.down: dict[tuple[int, int], deque[Frames]] = defaultdict(deque)
        self.strayed: dict[int, list[tuple[int, list[Any]]]] = defaultdict(list)
        self.shards: list[Shard | None] = [None] * shards
        self.homes: dict[int, int] = {}
        self.show_router_the_shards()
        self.acceptors: list[Acceptor | None] = [None] * acceptors
        self.lives: dict[tuple[str, int], int] = defaultdict(int)
        self.shown = False
        for index in range(shards):
            self.start_shard(index)
        for index in range(acceptors):
            self.start_acceptor(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _, shard in self.running_shards():
            shard.end(written=False)
        self.exits.close()

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

    # Running processes and clients

    def core(self, acceptor: int) -> AcceptorCore:
        """Return the core of a running acceptor."""
        life = self.acceptors[acceptor]
        assert life is not None
        return life.core

    def shard(self, index: int) -> ShardCore:
        """Return the core of a running shard."""
        life = self.shards[index]
        assert life is not None
        return life.core

    def running_acceptors(self) -> Iterator[tuple[int, Acceptor]]:
        """Yield the running acceptors with their indexes."""
        return ((index, life) for index, life in enumerate(self.acceptors) if life is not None)

    def running_shards(self) -> Iterator[tuple[int, Shard]]:
        """Yield the running shards with their indexes."""
        return ((index, life) for index, life in enumerate(self.shards) if life is not None)

    def recovered(self, shard: int, queue_id: int) -> int:
        """Return the number of messages that a queue had when the present incarnation of its shard began."""
        life = self.shards[shard]
        assert life is not None
        return life.books[queue_id].recovered

    def connect(
        self, acceptor: int = 0, properties: dict[str, Any] | None = None,
        capabilities: dict[str, bool] | None = None, heartbeat: int = 0, vhost: str = "/", user: str = "guest",
    ) -> Client:  # fmt: skip
        """Return a logged-in client; all users have the same password."""
        client = self.visit(acceptor, properties, capabilities, user)
        client.log_in(vhost, heartbeat)
        self.settle()
        client.take("connection.open-ok")
        client.events[0].clear()
        return client

    def visit(
        self, acceptor: int = 0, properties: dict[str, Any] | None = None, capabilities: dict[str, bool] | None = None,
        user: str = "guest",
    ) -> Client:  # fmt: skip
        """Return a client that has sent nothing yet."""
        client = Client(self, acceptor, properties or {}, CAPABILITIES if capabilities is None else capabilities, user)
        self.clients[client.connection] = client
        return client

    def queue(self, name: str) -> Queue:
        """Return the authority's record of a queue."""
        queue = self.router.topology.queue("/", name)
        assert queue is not None, name
        return queue

    def state(self, name: str) -> QueueState:
        """Return the shard's state of a queue."""
        record = self.queue(name)
        return self.shard(record.shard).state.queues[record.queue_id]

    # The router

    def add_user(self, name: str, write: str = ".*", vhost: str = "/") -> None:
        """Add a user who may declare and read everything in a vhost, and write to names that match."""
        self.router.command("user_add", name=name, password_hash=rabbit_hash("guest"), tags=[])
        self.permit(name, write, vhost)

    def permit(self, name: str, write: str, vhost: str = "/") -> None:
        """Set a user's write permission in a vhost; configure and read match everything."""
        self.router.command("permission_set", user=name, vhost=vhost, configure=".*", write=write, read=".*")
        self.publish_changes()

    def add_vhost(self, name: str) -> None:
        """Add a vhost that guest may use."""
        self.router.command("vhost_add", name=name)
        self.router.command("permission_set", user="guest", vhost=name, configure=".*", write=".*", read=".*")
        self.publish_changes()

    def declare(self, name: str, shard: int = 0, durable: bool = False, **arguments: Any) -> Queue:
        """Declare a queue on a shard; all replicas know it once the node has settled."""
        self.ask("queue_place", vhost="/", name=name, shard=shard)
        self.ask("queue_declare", name=name, durable=durable, arguments=arguments)
        return self.queue(name)

    def bind(
        self, exchange: str, *queues: str, key: str = "", type: str = "fanout", user: str = "guest", **options: Any
    ) -> None:
        """Bind queues to an exchange, as a user."""
        self.ask("exchange_declare", name=exchange, type=type)
        for queue in queues:
            self.ask("queue_bind", queue=queue, source=exchange, key=key, user=user, **options)

    def command(self, command: str, /, **arguments: Any) -> Any:
        """Run a command of the control socket; return its result."""
        result = self.router.command(command, **arguments)
        self.publish_changes()
        return result

    def policy(
        self, name: str, pattern: str, definition: dict[str, Any] | None, apply_to: str = "queues", vhost: str = "/"
    ) -> None:
        """Set a policy, or delete it if there is no definition."""
        ledger, defaults = self.router.authority.ledger, self.router.authority.defaults
        known = self.router.topology.policy(vhost, name, operator=False)
        if definition is not None:
            set_policy(ledger, Policy(vhost, False, name, pattern, apply_to, 0, definition), defaults)
        elif known is not None:
            delete_policy(ledger, known, defaults)
        self.router.recorded += ledger.take_steps()
        self.publish_changes()

    def ask(self, operation: str, /, **arguments: Any) -> Any:
        """Have the authority carry out an operation; return the result. AssertionError if it refuses."""
        outcome = self.router.ask(operation, **arguments)
        assert outcome.error is None, outcome
        self.publish_changes()
        return outcome.result

    def publish_changes(self) -> None:
        """Publish as the router does: first the changes, then the version in the gauges, then the answers."""
        steps, self.router.recorded = self.router.recorded, []
        if steps:
            self.publish_steps(steps)
        for ended, result in self.router.authority.moves.take_answers():
            ended(result)

    def publish_steps(self, steps: list[Step]) -> None:
        """Publish changes of the topology under a new version."""
        self.version += 1
        self.router.topology.version = self.version
        for step in steps:
            if step.change[0] == "queue":
                self.note_home(Queue(*step.change[1:]))
        published = bus.pack([self.version, [step.change for step in steps]])
        self.recent.add(self.version, published)
        for life in self.lives_now():
            life.changes.append(published)
        self.gauges.set_topology_version(self.version)

    def note_home(self, queue: Queue) -> None:
        """Record a queue's new home: its book moves along, unless the old home has just died."""
        home = self.homes.get(queue.queue_id, queue.shard)
        source, target = self.shards[home], self.shards[queue.shard]
        if home != queue.shard and source is not None and target is not None:
            source.hand_on(queue.queue_id, target)
        self.homes[queue.queue_id] = queue.shard

    def lives_now(self) -> list[Acceptor | Shard]:
        """Return all running acceptors and shards."""
        return [life for _, life in (*self.running_acceptors(), *self.running_shards())]

    def kill_router(self, arriving: int = 1 << 30) -> None:
        """Kill the router; each follower still receives `arriving` of its published changes and answers."""
        self.router_lives = False
        for life in self.lives_now():
            life.asked.clear()
            for line in (life.changes, life.replies):
                while len(line) > arriving:
                    line.pop()

    def start_router(self) -> None:
        """Start a new incarnation of the router from its storage, and inform its followers."""
        self.router_lives = True
        self.router.start_again(self.version)
        self.show_router_the_shards()
        self.look_at_moves()
        for index, life in enumerate(self.acceptors):
            self.router.acceptor_died(index, self.lives["acceptor", index] - (life is not None))
        self.publish_changes()
        for life in self.lives_now():
            life.router.router_started()
            self.ask_router(life)

    # Moves

    def show_router_the_shards(self) -> None:
        """Give the router its view of the shards."""
        self.router.authority.moves.incarnation_of = self.incarnation_of
        self.router.authority.moves.is_full = self.gauges.saturated

    def incarnation_of(self, shard: int) -> int:
        """Return the incarnation of a shard, 0 if it is not running."""
        life = self.shards[shard]
        return 0 if life is None else life.incarnation

    def move(self, name: str, shard: int) -> list[dict[str, Any]]:
        """Start to move a queue to a shard; return the list that the result will be in."""
        self.show_lives()
        results: list[dict[str, Any]] = []
        self.router.authority.moves.start("/", name, shard, None, None, results.append)
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()
        return results

    def abort_move(self, name: str) -> bool:
        """Abort a queue's move; return whether that was possible."""
        aborted = self.router.authority.moves.abort("/", name)
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()
        return aborted

    def look_at_moves(self) -> None:
        """Have the router roll back the moves whose processes have died."""
        self.router.authority.moves.roll_back_failed()
        self.router.recorded += self.router.authority.ledger.take_steps()
        self.publish_changes()

    def show_lives(self) -> None:
        """Write the running processes to the gauges, as the supervisor does; needed from the first move on."""
        self.shown = True
        places: list[tuple[Role, int, Acceptor | Shard | None]] = [
            *(("acceptor", index, life) for index, life in enumerate(self.acceptors)),
            *(("shard", index, life) for index, life in enumerate(self.shards)),
        ]
        for role, index, life in places:
            state, incarnation = (DEAD, self.lives[role, index]) if life is None else (READY, life.incarnation)
            self.gauges.process_write(
                role, index, pid=1, incarnation=incarnation, state=state, started_us=0, restarts=0
            )  # fmt: skip

    def snapshot(self) -> list[Any]:
        """Return the changes that make up the topology."""
        self.publish_changes()
        changes: list[Any] = bus.unpack(bus.pack(list(self.router.topology.changes())))
        return changes

    def load(self, life: Acceptor | Shard) -> None:
        """Give a new incarnation the router's topology."""
        life.router.ask_for_snapshot()
        self.ask_router(life)
        self.reply(life)

    def carry_out(self, life: Acceptor | Shard) -> None:
        """Send a core's requests to the router; `reply` delivers the answers."""
        requests, life.requesting.router_requests = life.requesting.router_requests, []
        for name, arguments, done in requests:
            life.router.request(name, arguments, done)
        if self.router_lives and self.router_answers_at_once:
            self.ask_router(life)

    def ask_router(self, life: Acceptor | Shard) -> None:
        """Carry out the requests that a core has sent."""
        asked = list(life.asked)
        life.asked.clear()
        for frame in asked:
            number, name, arguments = bus.unpack(frame)
            outcome = Outcome() if name == SNAPSHOT else self.router.ask(name, **arguments)
            self.publish_changes()
            if name == SNAPSHOT:
                turns = self.recent.since(arguments["have"], self.version)
                whole = {"changes": list(self.router.topology.changes())} if turns is None else {"turns": turns}
                outcome = Outcome(whole)
            life.replies.append(bus.pack([number, self.version, outcome.result, outcome.error]))

    # Single steps

    def finish(self, index: int) -> bool:
        """End an acceptor's turn; return whether it had anything to send."""
        life = self.acceptors[index]
        if life is None:
            return False
        turns = life.core.finish_turn()
        self.send(index, life, turns)
        routes = bool(life.core.gates.routing.waiting)
        life.core.gates.routing.serve()
        waits = life.core.waits()
        if waits:
            life.core.state.now = self.now = self.now + SETTLING_SECONDS
        said = bool(turns or waits or routes or life.core.state.router_requests or life.core.state.dirty)
        self.write_out(life)
        return said

    def send(self, index: int, life: Acceptor, turns: list[tuple[int, Frames]]) -> None:
        """Put an acceptor's turns in line for the shards that it is connected to."""
        for shard, frames in turns:
            running = self.shards[shard]
            if running is not None and life.meets[shard] == running.incarnation:
                self.up[index, shard].append((life.identity, [bytes(frame) for frame in frames]))

    def write_out(self, life: Acceptor) -> None:
        """Send an acceptor's requests to the router, and its output to its clients."""
        self.carry_out(life)
        dirty, life.core.state.dirty = life.core.state.dirty, {}
        for connection in dirty:
            self.flush(connection)

    def flush(self, connection: Connection) -> None:
        """Write a connection's output to its client."""
        chunks = connection.output.take()
        client = self.clients.get(connection)
        if client is not None:
            connection.last_sent = self.now
            client.take_bytes(chunks)

    def finish_shard(self, index: int) -> bool:
        """End a shard's turn; return whether it had anything to send."""
        life = self.shards[index]
        if life is None:
            return False
        turns = life.core.finish_turn(self.microseconds())
        life.look()
        life.note_safe()
        life.read_ahead()
        life.carrier.begin()
        for identity, frames in turns:
            for operation in unpacked(frames, to_acceptor.OPERATIONS)[3]:
                if isinstance(operation, to_acceptor.Rejected) and operation.turn > life.known.get(identity, 0):
                    life.note_rejected(operation.queue, operation.messages)
                elif isinstance(operation, to_acceptor.Dequeued):
                    life.note_dequeued(identity, *operation)
            for acceptor, running in self.running_acceptors():
                if running.identity == identity and running.meets[index] == life.incarnation:
                    self.down[index, acceptor].append([bytes(frame) for frame in frames])
            for peer, shard in self.running_shards():
                if identity == b"shard.%d.%d" % (peer, shard.incarnation):
                    shard.core.peers[index].made_safe(unpacked(frames, to_acceptor.OPERATIONS)[0])
        crossing = life.core.peers.close_turns(life.core.state.version)
        for peer, frames in crossing:
            whole = [bytes(frame) for frame in frames]
            self.across[index, peer].append((b"shard.%d.%d" % (index, life.incarnation), whole))
        said = bool(
            turns or crossing or life.core.state.router_requests or life.core.next_wake() <= self.microseconds()
        )
        self.carry_out(life)
        return said

    def commit_shard(self, index: int) -> bool:
        """Have a shard hand over or write a commit; return whether there was one. The end of a turn reports it."""
        life = self.shards[index]
        return life is not None and life.commit()

    def send_up(self, acceptor: int, shard: int, last: bool = False) -> bool:
        """Deliver the next turn of an acceptor, or of a dead one (`last`), to a shard; return whether there was one."""
        life, line = self.shards[shard], (self.last_words if last else self.up)[acceptor, shard]
        if life is None or not line:
            return False
        identity, frames = line.popleft()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        life.core.state.now = self.microseconds()
        life.core.receive(identity, turn, version, last_report, operations, parts)
        life.note(identity, turn, operations, parts)
        self.gauges.pair_add_taken(acceptor, shard, sum(map(len, frames)))
        return True

    def send_across(self, shard: int, peer: int) -> bool:
        """Deliver the next turn of a shard to another; return whether there was one."""
        life, line = self.shards[peer], self.across[shard, peer]
        if life is None or not line:
            return False
        identity, frames = line.popleft()
        life.core.state.now = self.microseconds()
        turn, version, last_report, operations, parts = unpacked(frames, to_shard.OPERATIONS)
        life.core.receive(identity, turn, version, last_report, operations, parts)
        if turn != bus.HELLO:
            life.note_of_shard(identity, turn, operations)
        return True

    def send_down(self, shard: int, acceptor: int, flow: str = "keep") -> bool:
        """Deliver the next turn of a shard to an acceptor; its broadcasts may be lost, late or repeated (`flow`)."""
        life, line = self.acceptors[acceptor], self.down[shard, acceptor]
        if life is None or not line:
            return False
        turn, _, _, operations, parts = unpacked(line.popleft(), to_acceptor.OPERATIONS)
        broadcasts = [operation for operation in operations if isinstance(operation, to_acceptor.Flow)]
        if flow in ("late", "again"):
            self.strayed[acceptor] += [(shard, operation) for operation in broadcasts]
        if flow in ("late", "lost"):
            operations = [operation for operation in operations if not isinstance(operation, to_acceptor.Flow)]
        life.core.state.now = self.now
        life.core.receive(shard, turn, operations, parts)
        return True

    def stray(self, acceptor: int, which: int, keep: bool = False) -> None:
        """Deliver a late broadcast."""
        line = self.strayed[acceptor]
        if line:
            _, operation = line[which % len(line)] if keep else line.pop(which % len(line))
            self.core(acceptor).gates.on_broadcast(operation.queue, operation.epoch)

    def change(self, life: Acceptor | Shard) -> bool:
        """Deliver the next change of the topology to a follower."""
        return self.hear_router(life, life.router.on_change, life.changes)

    def reply(self, life: Acceptor | Shard) -> bool:
        """Deliver the router's next answer to a follower."""
        return self.hear_router(life, life.router.on_reply, life.replies)

    def hear_router(self, life: Acceptor | Shard, hear: Callable[[bytes], None], line: deque[bytes]) -> bool:
        """Deliver a message of the router: any may let a shard process turns that were ahead of its topology."""
        if not line:
            return False
        if isinstance(life, Shard):
            life.core.state.now = self.microseconds()
        hear(line.popleft())
        if isinstance(life, Shard):
            life.look()
        return True

    def meet(self, acceptor: int) -> bool:
        """Inform an acceptor of the next start or death of a shard."""
        life = self.acceptors[acceptor]
        if life is None or not life.events:
            return False
        event, shard, incarnation = life.events.popleft()
        if event == "died":
            life.core.shard_died(shard)
        else:
            life.meets[shard] = incarnation
            self.down[shard, acceptor].clear()
            life.core.shard_started(shard)
        return True

    def mourn(self, shard: int) -> bool:
        """Inform a shard of the next death of an acceptor or of another shard."""
        life = self.shards[shard]
        if life is None or not life.events:
            return False
        life.core.state.now = self.microseconds()
        role, index, incarnation = life.events.popleft()
        life.core.died(role, index, incarnation)
        return True

    def recheck(self, acceptor: int) -> None:
        """Run an acceptor's rechecks."""
        core = self.core(acceptor)
        core.state.now = self.now
        core.recheck()

    def step(self, slow: int | None = None) -> bool:
        """Move everything in flight by one step, except a slow acceptor's turns; return whether anything moved."""
        moved = False
        for index, acceptor in self.running_acceptors():
            while self.meet(index) or self.change(acceptor) or self.reply(acceptor):
                moved = True
        for index, shard in self.running_shards():
            while self.mourn(index) or self.change(shard) or self.reply(shard):
                moved = True
        for client in list(self.clients.values()):
            while client.read():
                moved = True
                if client.deaf:  # the output caused by a read counts only once it is written
                    break
        for index, _ in self.running_acceptors():
            moved |= self.finish(index)
        for index, shard_index in [(a, s) for a in range(len(self.acceptors)) for s in range(len(self.shards))]:
            while index != slow and (self.send_up(index, shard_index, last=True) or self.send_up(index, shard_index)):
                moved = True
        for shard_index, peer in [(a, b) for a in range(len(self.shards)) for b in range(len(self.shards))]:
            while self.send_across(shard_index, peer):
                moved = True
        for index, _ in self.running_shards():
            moved |= self.finish_shard(index)
            while self.commits and self.commit_shard(index):
                moved = self.finish_shard(index) or True
        for index, shard_index in [(a, s) for a in range(len(self.acceptors)) for s in range(len(self.shards))]:
            while self.send_down(shard_index, index):
                moved = True
        return moved

    def settle(self, rechecks: int = 0) -> None:
        """Take steps until nothing moves; then let time pass and recheck, `rechecks` times."""
        for _ in range(rechecks + 1):
            for _ in range(10_000):
                if not self.step():
                    break
            else:
                raise AssertionError("it never comes to rest")
            if rechecks:
                self.now += self.settings.flow.recheck_seconds
                for index, _ in self.running_acceptors():
                    self.recheck(index)

    def meter(self, acceptor: int) -> None:
        """Have an acceptor check the gates that open with time."""
        life = self.acceptors[acceptor]
        if life is not None:
            life.core.state.now = self.now
            life.core.gates.metered.serve()

    def come_to_rest(self) -> None:
        """Take steps and run rechecks until nothing moves any more."""
        for _ in range(1000):
            self.settle()
            for index, _ in self.running_acceptors():
                self.recheck(index)
            if not self.step():
                return
        raise AssertionError("it never comes to rest")

    # Starts and deaths

    def start_shard(self, index: int, earlier: Mapping[int, Stop] | None = None) -> None:
        """Start a shard. `earlier`: stops not over when an earlier epoch of the node ended, by queue id."""
        assert self.shards[index] is None
        self.lives["shard", index] += 1
        incarnation = self.lives["shard", index]
        self.router.authority.moves.shard_started(index, incarnation)
        self.router.recorded += self.router.authority.ledger.take_steps()
        life = Shard(self, index, incarnation)
        life.core.flow.earlier.update(earlier or {})
        self.load(life)
        for id, queue in life.core.state.queues.items():
            life.books[id].recovered = queue.contents.ready
        self.shards[index] = life
        if self.shown:
            self.show_lives()
        for peer, running in self.running_shards():
            if peer != index:
                self.across[peer, index].clear()
                running.core.peers[index].started()
                life.core.peers[peer].started()
        for _, acceptor in self.running_acceptors():
            acceptor.events.append(("started", index, incarnation))

    def kill_shard(self, index: int, arriving: int = 1 << 30, written: bool = True, noticed: bool = True) -> Shard:
        """Kill a shard; each acceptor still receives `arriving` of its turns. Return the incarnation that ended.

        `written`: the commit that was handed over reaches the store. `noticed`: the router rolls back moves at once.
        """
        life = self.shards[index]
        assert life is not None
        self.shards[index] = None
        life.end(written)
        for peer, running_peer in self.running_shards():
            self.across[index, peer].clear()
            self.across[peer, index].clear()
            running_peer.core.peers[index].died()
            running_peer.events.append(("shard", index, life.incarnation))
        for acceptor, running in self.running_acceptors():
            self.up[acceptor, index].clear()
            self.last_words[acceptor, index].clear()
            line = self.down[index, acceptor]
            while len(line) > arriving:
                line.pop()
            running.events.append(("died", index, life.incarnation))
        if self.shown:
            self.show_lives()
        if self.router_lives and noticed:
            self.look_at_moves()
        return life

    def start_acceptor(self, index: int) -> None:
        """Start an acceptor."""
        assert self.acceptors[index] is None
        self.lives["acceptor", index] += 1
        life = Acceptor(self, index, self.lives["acceptor", index])
        self.load(life)
        self.acceptors[index] = life
        if self.shown:
            self.show_lives()
        for shard, running in self.running_shards():
            life.meets[shard] = running.incarnation
            life.core.shard_started(shard)

    def kill_acceptor(self, index: int) -> None:
        """Kill an acceptor; its turns in flight still arrive."""
        life = self.acceptors[index]
        assert life is not None
        self.acceptors[index] = None
        for client in [client for client in self.clients.values() if client.acceptor == index]:
            client.socket.closed = True
            del self.clients[client.connection]
        for shard, running in self.running_shards():
            self.down[shard, index].clear()
            self.last_words[index, shard] += self.up[index, shard]
            self.up[index, shard].clear()
            running.events.append(("acceptor", index, life.incarnation))
        self.strayed[index].clear()
        if self.shown:
            self.show_lives()
        if self.router_lives:
            self.router.acceptor_died(index, life.incarnation)
            self.publish_changes()

    # State

    def channels(self) -> Iterator[Channel]:
        """Yield all channels, including those of closed connections that still have publishes waiting."""
        for _, life in self.running_acceptors():
            for connection in life.core.state.connections.values():
                yield from connection.channels.values()
            yield from life.core.orphans.channels


def unpacked(frames: Frames, receives: Operations) -> tuple[int, int, int, list[Operation], list[Any]]:
    """Return turn, version, last report received, operations and parts of a multipart to a receiver."""
    turn, version, last_report, operations, parts, apart = bus.read_head(frames[0], receives)
    following = iter(frames[1:])
    assert apart == len(frames) - 1
    return turn, version, last_report, operations, [next(following) if part is None else part for part in parts]


def parked(channel: Channel) -> list[tuple[bytes, bytes]]:
    """Return (address, body) of every publish that a channel has parked."""
    found = []
    for item in channel.inbox:
        if isinstance(item, ParkedRun):
            found += [(item.address, item.batch.record(item.first + i)[2]) for i in range(item.count)]
    return found


def open_channel(node: Node, acceptor: int = 0, number: int = 1, **options: Any) -> Client:
    """Return a client of an acceptor, with one open channel."""
    client = node.connect(acceptor, **options)
    client.call("channel.open", number)
    return client


def fill_beside(node: Node, queue: Queue, late: Client, client: Client) -> None:
    """Fill a queue from `client` while publishes of `late`, which another acceptor let through, are in flight; then
    deliver those.
    """
    late.read()
    node.finish(late.acceptor)
    assert node.core(late.acceptor).gates.queue_gates[queue.queue_id].in_flight
    for _ in range(500):
        client.read()
        node.finish(client.acceptor)
        node.send_up(client.acceptor, queue.shard)
        node.finish_shard(queue.shard)
        node.commit_shard(queue.shard)
        node.send_down(queue.shard, client.acceptor)
    node.settle(rechecks=3)
