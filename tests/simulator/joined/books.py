"""A node that keeps books: the messages that entered each queue, in order."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from penstock import bus
from penstock.bus import to_acceptor, to_shard
from penstock.bus.operations_cy import Operation
from penstock.settings import Settings
from shard.core import ShardCore
from shard.store.store import Store
from shard.store.stored import TRANSACTION
from shard.transactions.prepared import Part
from shard.turns.link import incarnation_of
from tests.simulator.joined.node import Node
from tests.simulator.joined.processes import Shard


class BookedShard(Shard):
    """A shard with books. `read` has the contents of turns that it has not processed yet, `parts` its parts of
    transactions, by id.
    """

    def __init__(
        self, core: ShardCore, incarnation: int, store: Store | None, directory: Path, settings: Settings
    ) -> None:
        super().__init__(core, incarnation, store, directory, settings)
        self.books: dict[int, list[bytes]] = defaultdict(list)
        self.read: dict[bytes, deque[tuple[int, list[tuple[int, int, bytes]], list[bytes]]]] = defaultdict(deque)
        self.parts: dict[bytes, Part] = {}

    def entered(self, id: int) -> list[bytes]:
        """Return the bodies that entered a queue."""
        return self.books[id]

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
                of = commit if index <= ends else -1
                queues = [id for id in operation.queues if isinstance(id, int)]
                bodies += [(of, id, batch.record(row)[2]) for row in rows for id in queues]
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
                        self.books[id].append(body)

    def note_done(self, transaction: bytes) -> None:
        """Enter the shard's part of a transaction, now done, unless it was entered before."""
        part = self.parts.pop(transaction, None)
        for queues, _, batch in part.publishes if part is not None else ():
            for id in queues:
                if isinstance(id, int) and id in self.core.state.queues:
                    self.books[id] += [batch.record(row)[2] for row in range(batch.count)]


class BookedNode(Node):
    """A node whose shards keep books."""

    new_shard = BookedShard
