"""A node that keeps books: messages that entered a queue, those of them that are safe, and those reported as gone."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation
from shard.core import ShardCore
from shard.store.store import Store
from shard.store.stored import TRANSACTION
from shard.transactions.prepared import Part
from shard.turns.link import incarnation_of
from tests.simulator.joined.lines import unpacked
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Shard


class Book:
    """The messages that entered a queue, and the number that its shard reported as refused, in one incarnation of its
    home, or of several homes if it has moved.

    The first `safe` of `entered` outlive the home. The next incarnation knows that the first `written` existed; others
    were gone before.
    """

    def __init__(self) -> None:
        self.entered: list[bytes] = []
        self.safe = 0
        self.written = 0
        self.rejected = 0


class BookedShard(Shard):
    """A shard with books. `books` has those of the queues whose home it is, by queue id; `handed_on` those of queues
    that have moved away. `known` is the last turn of each link that was safe from the start. `published` has the bodies
    of each PUBLISH, `dequeued` the bodies reported to acceptors as having left a queue. `parts` has the shard's parts
    of transactions, by id.
    """

    def __init__(self, core: ShardCore, incarnation: int, store: Store | None, directory: Path) -> None:
        super().__init__(core, incarnation, store, directory)
        records = {} if store is None else store.links()
        self.known: dict[bytes, int] = {identity: bus.unpack(record)[0] for identity, record in records.items()}
        self.books: dict[int, Book] = defaultdict(Book)
        self.handed_on: dict[int, Book] = {}
        self.handed_over: list[tuple[Book, int]] = []
        """The sizes of the books when the present commit was handed over."""
        self.read: dict[bytes, deque[tuple[int, list[tuple[int, int, bytes]], list[bytes]]]] = defaultdict(deque)
        self.parts: dict[bytes, Part] = {}
        self.published: dict[tuple[bytes, int, int], list[bytes]] = {}
        self.dequeued: dict[tuple[int, bytes, int, int, int], bytes] = {}

    def entered(self, id: int) -> list[bytes]:
        """Return the bodies that entered a queue."""
        return self.books[id].entered

    def sizes(self) -> list[tuple[Book, int]]:
        """Return the number of messages entered in each book."""
        return [(book, len(book.entered)) for book in self.books.values()]

    def commit(self) -> bool:
        began = super().commit()
        if self.writing is not None:
            self.handed_over = self.sizes()
        return began

    def write(self) -> None:
        super().write()
        for book, size in self.handed_over:
            book.written = max(book.written, size)
            book.safe = max(book.safe, book.written)

    def hand_on(self, id: int, other: Shard) -> None:
        """Hand a queue's book to another shard, whose store has the whole queue."""
        super().hand_on(id, other)
        book = self.handed_on[id] = other.books[id] = self.books.pop(id, None) or Book()
        book.safe = book.written = len(book.entered)

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

    def was_sent(self, identity: bytes, turn: int, operations: list[Operation], parts: list[Any]) -> None:
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
        self.has_processed()

    def was_sent_across(self, identity: bytes, turn: int, operations: list[Operation]) -> None:
        """Record the outcomes of transactions in another shard's turn."""
        outcomes = [operation for operation in operations if isinstance(operation, to_shard.Outcome)]
        done = [outcome.transaction for outcome in outcomes if outcome.commits]
        self.read[identity].append((turn, [], done))
        self.has_processed()

    def turn_has_ended(self, turns: list[tuple[bytes, Any]]) -> None:
        self.has_processed()
        self.note_safe()
        for identity, frames in turns:
            for operation in unpacked(frames, to_acceptor.OPERATIONS)[3]:
                if isinstance(operation, to_acceptor.Rejected) and operation.turn > self.known.get(identity, 0):
                    self.note_rejected(operation.queue, operation.messages)
                elif isinstance(operation, to_acceptor.Dequeued):
                    self.note_dequeued(identity, *operation)

    def has_processed(self) -> None:
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


class BookedNode(Node):
    """A node whose shards keep books."""

    new_shard = BookedShard
