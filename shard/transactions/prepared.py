"""A shard's part of an undecided transaction (shard/transactions/two_phase.py): its publishes and settlements.

The part is invisible. Its messages are in no queue, but count in the depth of their target queues, in the memory of
the shard and, where they are stored, in the size of the store. Its settlements stay unacked, with no consumer, and no
longer count in the depth: the depth is already that of after the commit.

The record has only what outlives the shard: persistent messages for durable queues, acks and rejects of theirs. A
requeue needs no record: the messages are requeued either way.

    size (4), then msgpack: [deciding shard, [[queue id, sequence, count, kind], ...],
        [[[queue id, ...], [id of a queue that may refuse it, ...], messages, bytes of rows, of contents], ...]],
    then rows and contents of the publishes, one after the other
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock import bus
from penstock.batch.batch_cy import PERSISTENT, SENT_AGAIN, Batch, BatchBuilder
from penstock.batch.settlement_rows import SETTLE_ACK, SETTLE_REJECT, SETTLE_REQUEUE
from penstock.bus import to_shard
from shard.queue.queue_state import QueueState
from shard.store.journal import Pieces
from shard.store.stored import unpack_contents
from shard.turns.replies import pass_on

if TYPE_CHECKING:
    from shard.serving.intake import Intake
    from shard.turns.state import ShardState

_SIZE = Struct("<I")

Settlement = tuple[int, int, int, int]
"""Queue id, sequence of the first message, count, kind (`penstock.batch.settlement_rows`)."""


class Publish(NamedTuple):
    """Messages for some queues and reply consumers; `powerless` queues accept only those they have room for."""

    queues: Sequence[int | str]
    powerless: Sequence[int]
    batch: Batch


class Stored(NamedTuple):
    """A publish in a record: `value` are the rows and contents of its `messages`."""

    queues: list[int]
    powerless: list[int]
    messages: int
    value: bytes


class Part:
    """A shard's part of a transaction; `decider` is the shard that decides it.

    A `recovered` part may have been committed, and its messages delivered, by an earlier incarnation. `nbytes` are the
    bytes of messages in its record, 0 for no record. `unclaimed` are settlements of an earlier incarnation in queues
    that are not known yet.
    """

    def __init__(self, decider: int, publishes: list[Publish], unclaimed: Iterable[Settlement] = ()) -> None:
        self.decider = decider
        self.publishes = publishes
        self.settlements: list[Settlement] = []
        self.unclaimed = list(unclaimed)
        self.recovered = False
        self.nbytes = 0
        self.stored = False
        self.weight = sum(publish.batch.whole(0, publish.batch.count) for publish in publishes)
        self.reserved: Sequence[tuple[QueueState, int, int]] = ()
        self._depths: dict[int, list[int]] = {}

    # While undecided

    def queues(self) -> set[int]:
        """The ids of the queues that it publishes to."""
        return {id for publish in self.publishes for id in publish.queues if isinstance(id, int)}

    def enter(self, queue: QueueState) -> None:
        """Count its messages for a queue in the queue's depth, whatever the marks."""
        for publish in self.publishes:
            if queue.id in publish.queues:
                count, whole = publish.batch.count, publish.batch.whole(0, publish.batch.count)
                if queue.has_marks:
                    queue.saturation.excuse(count, whole)
                self._count(queue, count, whole)

    def add_settlement(self, queue: QueueState, sequence: int, count: int, kind: int) -> None:
        """Hold unacked messages of a queue, without a consumer, until the transaction is decided."""
        self.settlements.append((queue.id, sequence, count, kind))
        if kind == SETTLE_REQUEUE:
            self._count(queue, 0, 0)
        else:
            self._count(queue, -count, -queue.contents.size_of(sequence, count))

    def claim(self, queue: QueueState) -> None:
        """A queue has been recovered: hold the messages that the part is to settle, so that they are not ready."""
        self.enter(queue)
        for _, sequence, count, kind in [each for each in self.unclaimed if each[0] == queue.id]:
            for low, part in queue.contents.claim(sequence, count):
                self.add_settlement(queue, low, part, kind)
        self.unclaimed = [each for each in self.unclaimed if each[0] != queue.id]

    def _count(self, queue: QueueState, count: int, whole: int) -> None:
        if queue.id not in self._depths:
            self._depths[queue.id] = [0, 0]
            queue.pending.undecided += 1
        depth = self._depths[queue.id]
        depth[0] += count
        depth[1] += whole
        queue.pending.count += count
        queue.pending.whole += whole

    def first_held(self, queue: QueueState) -> list[int]:
        """The lowest sequence number that it holds of a queue."""
        held = [sequence for id, sequence, _, _ in self.settlements if id == queue.id]
        return [min(held)] if held else []

    # Decided

    def commit(self, state: ShardState, intake: Intake) -> None:
        """Settle and publish everything, in queues that still exist."""
        self._leave(state)
        for id, sequence, count, kind in self.settlements:
            if (queue := state.queues.get(id)) is not None:
                settle(queue, sequence, count, kind)
        for publish in self.publishes:
            self._publish(state, intake, publish)

    def _publish(self, state: ShardState, intake: Intake, publish: Publish) -> None:
        batch = publish.batch.flagged(SENT_AGAIN) if self.recovered else publish.batch
        for id in publish.queues:
            if isinstance(id, str):
                pass_on(state, id, batch, 0, batch.count)
            else:
                intake.enqueue(id, batch, 0, batch.count, firm=id not in publish.powerless)

    def abort(self, state: ShardState) -> None:
        """Undo the part: requeue its messages, which are redelivered."""
        self._leave(state)
        for id, sequence, count, _ in self.settlements:
            if (queue := state.queues.get(id)) is not None:
                queue.contents.requeue(sequence, count)

    def _leave(self, state: ShardState) -> None:
        for reserving, count, nbytes in self.reserved:
            reserving.pending.release(count, nbytes)
        for id, (count, whole) in self._depths.items():
            if (queue := state.queues.get(id)) is not None:
                queue.pending.undecided -= 1
                queue.pending.count -= count
                queue.pending.whole -= whole
                state.touch(queue)

    # The store

    def record(self, state: ShardState) -> Pieces | None:
        """The record for a later incarnation; None if there is nothing to record."""
        durable = {id for id, queue in state.queues.items() if queue.contents.durable} & self._depths.keys()
        settlements = [each for each in self.settlements if each[0] in durable and each[3] != SETTLE_REQUEUE]
        publishes: list[list[Any]] = []
        contents: list[memoryview] = []
        for queues, powerless, batch in self.publishes:
            ids = [id for id in queues if id in durable]
            if ids and batch.survey(0, batch.count)[1] & PERSISTENT:
                pieces = batch.slices(0, batch.count)
                publishes.append([ids, powerless, batch.count, len(pieces[0]), len(pieces[1])])
                contents += pieces
        if not settlements and not publishes:
            return None
        head = bus.pack([self.decider, settlements, publishes])
        self.nbytes = sum(map(len, contents))
        return [_SIZE.pack(len(head)), head, *contents]

    @classmethod
    def of_record(cls, record: bytes, restarted: bool) -> Part:
        """The part in a record of an earlier incarnation; after a restart of the node its transient messages are left
        out.

        Raises ValueError if the record is malformed.
        """
        decider, settlements, found = split(record)
        publishes = [Publish(each.queues, each.powerless, unpack_contents(each.messages, each.value)) for each in found]
        if restarted:
            publishes = [kept for publish in publishes if (kept := persistent(publish)).batch.count]
        part = cls(decider, publishes, settlements)
        part.recovered = part.stored = True
        part.nbytes = sum(len(each.value) for each in found)
        return part


def settle(queue: QueueState, sequence: int, count: int, kind: int) -> None:
    """Settle unacked messages of a queue."""
    if kind == SETTLE_ACK:
        queue.contents.settle(sequence, count)
    elif kind == SETTLE_REJECT:
        queue.contents.reject(sequence, count)
    else:
        queue.contents.requeue(sequence, count)


def split(record: bytes) -> tuple[int, list[Settlement], list[Stored]]:
    """Deciding shard, settlements and publishes of a part's record. Raises ValueError if it is malformed."""
    try:
        (size,) = _SIZE.unpack_from(record)
        at = _SIZE.size + size
        decider, settlements, publishes = bus.unpack(record[_SIZE.size : at])
        found = []
        for queues, powerless, count, rows, contents in publishes:
            found.append(Stored(queues, powerless, count, record[at : at + rows + contents]))
            at += rows + contents
        if at != len(record):
            raise ValueError(f"{len(record)} bytes instead of {at}")
        return decider, [(id, sequence, count, kind) for id, sequence, count, kind in settlements], found
    except (TypeError, ValueError, error) as problem:
        raise ValueError(f"not a part of a transaction: {problem}") from None


def persistent(publish: Publish) -> Publish:
    """The messages of a publish that outlive the node."""
    batch = publish.batch
    if batch.common_flags(0, batch.count) & PERSISTENT:
        return publish
    builder = BatchBuilder()
    for row in range(batch.count):
        if batch.flags(row) & PERSISTENT:
            builder.extend(batch, row, 1)
    return publish._replace(batch=builder.finish())


def published(parts: Sequence[Any], operations: Iterable[to_shard.Publish], powerless: Sequence[int]) -> list[Publish]:
    """The publishes of a turn's operations, copied from the arena because the part may outlast the loan."""
    found = []
    for operation in operations:
        batch = bus.taken_home(bus.batch_at(parts, operation.part))
        rows = Batch(*batch.slices(operation.first, operation.messages))
        found.append(Publish(operation.queues, powerless, rows))
    return found
