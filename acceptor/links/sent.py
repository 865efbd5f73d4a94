"""Publishes, transactions and settlements in flight to a shard, kept until they are safe there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from acceptor.gates.confirms import Span
from acceptor.gates.queue_gate import QueueGate, QueueLane, QueuePace
from acceptor.links.in_flight_cy import Load
from acceptor.links.unacked_cy import Settlements
from acceptor.links.weights import WHOLE
from penstock.batch.batch_cy import Batch, BatchBuilder
from penstock.bus import to_shard
from penstock.bus.operations_cy import Operation
from penstock.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from acceptor.links.contained import Breakable

# From this size (bytes) on a run leaves in its own parts: joining it to another would cost a copy that saves nothing.
OWN_PARTS = 16384


class Returns(Protocol):
    """The mandatory messages of a publish, which return if a queue refuses them (acceptor/publishing/returned.py)."""

    def refused(self, queue: int, batch: Batch, first: int, count: int, offset: int) -> None: ...


class Publish:
    """One publish of the turn being written: a builder that still grows, or a range of a batch on its own.

    `spans` begin at rows of it; `returns` has the first row and count of rows that are returned if they are refused;
    `senders` are the channels that publish in it without a span. `resent`, `age` and `trace` are those of its operation
    (`to_shard.Publish`).
    """

    __slots__ = (
        "age", "batch", "builder", "commit", "count", "first", "queues", "resent", "returns", "senders", "spans",
        "trace", "weight",
    )  # fmt: skip

    def __init__(self, queues: tuple[int | str, ...], weight: int) -> None:
        self.queues = queues
        self.weight = weight
        self.builder: BatchBuilder | None = None
        self.batch: Batch | None = None
        self.first = 0
        self.count = 0
        self.spans: list[tuple[int, Span]] = []
        self.returns: list[tuple[int, int, Returns]] = []
        self.senders: dict[Breakable, None] | None = None
        self.commit: Commit | None = None
        self.resent = False
        self.age = 0
        self.trace: TraceContext | None = None

    def add_origin(
        self, first: int, count: int, span: Span | None, returns: Returns | None, sender: Breakable | None
    ) -> None:
        """Record the origin of rows."""
        if span is not None:
            self.spans.append((first, span))
        elif sender is not None:
            if self.senders is None:
                self.senders = {}
            self.senders[sender] = None
        if returns is not None:
            self.returns.append((first, count, returns))

    def give_back(self, queue: int, first: int, count: int) -> None:
        """Return the mandatory messages among rows that a queue refused."""
        for start, size, returns in self.returns:
            low, high = max(first, start), min(first + count, start + size)
            if low < high and self.batch is not None:
                returns.refused(queue, self.batch, self.first + low, high - low, low - start)

    def finish(self) -> None:
        """Close the builder: nothing more joins it."""
        if self.builder is not None:
            self.batch, self.builder = self.builder.finish(), None

    def operation(self, part: int) -> to_shard.Publish:
        """Return its operation, with the index of its batch among the parts of the turn."""
        return to_shard.Publish(self.queues, part, 0, self.count, self.resent, self.age, self.trace)

    def leave_again(self) -> None:
        """Mark it as a repeat for another incarnation of the shard: the previous one may have delivered its messages,
        unless it was prepared.
        """
        self.resent = self.commit is None or self.commit.prepared is None


class Commit:
    """One shard's part of a transaction: publishes and settlements, applied together (`to_shard.Commit`), or prepared
    if other shards have parts as well (`to_shard.Prepare`): `prepared` is its number, the group of its channel and the
    deciding shard.

    `powerless` queues take in as much as they have room for; their refusal of the rest does not refuse the transaction.
    """

    __slots__ = ("count", "nbytes", "powerless", "prepared", "publishes", "settlements", "transaction")

    def __init__(
        self, transaction: Committing, settlements: Settlements | None, powerless: Collection[int] = (),
        prepared: tuple[int, int, int] | None = None,
    ) -> None:  # fmt: skip
        self.transaction = transaction
        self.settlements = settlements
        self.publishes: list[Publish] = []
        self.count = 0
        self.nbytes = 0
        self.powerless = sorted(powerless)
        self.prepared = prepared

    def add(self, queues: tuple[int | str, ...], batch: Batch, first: int, count: int) -> None:
        """Publish rows of a batch to queues of the shard; they join the rows before them if those go to the same
        queues.
        """
        nbytes = batch.nbytes(first, count)
        self.count += count
        self.nbytes += nbytes
        last = self.publishes[-1] if self.publishes else None
        if last is None or last.queues != queues or last.builder is None or nbytes >= OWN_PARTS:
            last = Publish(queues, WHOLE)
            last.commit = self
            self.publishes.append(last)
            if nbytes >= OWN_PARTS:
                last.batch, last.first, last.count = batch, first, count
                return
            last.builder = BatchBuilder()
        last.builder.extend(batch, first, count)
        last.count += count
        if last.builder.used >= 16 * OWN_PARTS:
            last.finish()

    def operation(self, settlements: int | None) -> to_shard.Commit | to_shard.Prepare:
        """Return its operation, with the index of its settlements among the parts of the turn."""
        if self.prepared is None:
            return to_shard.Commit(len(self.publishes), settlements, self.powerless)
        return to_shard.Prepare(len(self.publishes), settlements, self.powerless, *self.prepared)

    def leave_again(self) -> None:
        """Drop requeues for another incarnation of the shard: it gets them by way of Hold."""
        if self.settlements is not None:
            settlements, self.settlements = self.settlements, Settlements()
            self.settlements.extend(settlements, requeues=False)


class Committing(Protocol):
    """A transaction in flight to its shards."""

    @property
    def channel(self) -> Breakable: ...

    def refused_by(self, queue: int) -> None: ...

    def part_reported(self) -> None: ...


class Sent:
    """The contents of a turn that must not be lost: publishes and transactions, by index of their operation, and
    settlements.

    `number` is 0 while the turn is being written; `load` is the load of its publishes, `nbytes` its whole length in
    bytes, 0 before it leaves; `queue_gates` has its messages and bytes in flight for queues; `returned` is what its
    Hold requeues. `operations` are those of its turn, once that has left.
    """

    __slots__ = (
        "commits",
        "load",
        "nbytes",
        "number",
        "operations",
        "publishes",
        "queue_gates",
        "returned",
        "settlements",
    )  # fmt: skip

    def __init__(self) -> None:
        self.number = 0
        self.load = Load()
        self.nbytes = 0
        self.publishes: dict[int, Publish] = {}
        self.commits: dict[int, Commit] = {}
        self.settlements = Settlements()
        self.returned: Settlements | None = None
        self.queue_gates: dict[QueueGate | QueueLane, list[int]] = {}
        self.operations: list[Operation] = []


def paced_among(turns: Iterable[Sent]) -> Counter[tuple[QueuePace, QueueGate]]:
    """Return how many messages for paced queues these turns bring, by pace and queue gate."""
    counts: Counter[tuple[QueuePace, QueueGate]] = Counter()
    for sent in turns:
        for queue_gate, (count, _) in sent.queue_gates.items():
            if isinstance(queue_gate, QueueGate) and queue_gate.pace is not None:
                counts[queue_gate.pace, queue_gate] += count
    return counts
