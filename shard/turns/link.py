"""A shard's side of its connection to one acceptor: its consumers, and the turn being written for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from penstock import bus
from penstock.bus import to_acceptor
from penstock.bus.operations_cy import Operation, to_wires
from shard.contents.segment_cy import Range, Source
from shard.queue.consumer_cy import Consumer, Group

if TYPE_CHECKING:
    from shard.queue.lending import Lending
    from shard.queue.outlet_cy import Outlet
    from shard.queue.queue_state import QueueState


@lru_cache(maxsize=1024)
def incarnation_of(identity: bytes) -> tuple[str, int, int]:
    """Role, index and incarnation in `acceptor.INDEX.INCARNATION` or `shard.INDEX.INCARNATION`."""
    role, index, incarnation = identity.split(b".")
    return role.decode(), int(index), int(incarnation)


def safe_turn(record: bytes | None) -> int:
    """The number of the turn in a link's record (`Link.record`); 0 for None."""
    return 0 if record is None else int(bus.unpack(record)[0])


def safe_record(turn: int) -> bytes:
    """A record of a turn of which nothing was refused."""
    return bus.pack([turn, []])


Verdict = to_acceptor.Rejected | to_acceptor.Refused
"""The refusal of a publish or a transaction."""


class Link:
    """One incarnation of an acceptor, or of another shard, which only publishes (dead letters) and is sent no
    operations.

    `received` is its last turn applied, `safe` the last turn whose effects outlive the shard, `reported` the last turn
    reported as safe. `verdicts` are the operations that name refused publishes, in the order of their turns; each
    leaves with the report of its turn and is kept until that report is confirmed.

    `reserved` is the room, in messages and bytes, kept in queues for the transactions of channels, by group. `promised`
    are operations that leave when their turn is safe, each with its turn; a later incarnation is asked again. `outlets`
    are the outlets of connections with consumers here, `lending` the bounds of their users' loans in flight. `greeted`
    is set from the peer's hello until its answer; `waiting` holds turns that are ahead of the shard's topology;
    `receiver` is the acceptor's index; `source` is the link as its messages refer to it.
    """

    __slots__ = (
        "consumers", "greeted", "groups", "identity", "incarnation", "lending", "outlets", "promised", "received",
        "receiver", "replies", "reported", "reserved", "safe", "source", "turn", "verdicts", "waiting",
    )  # fmt: skip

    def __init__(self, identity: bytes, record: bytes | None = None) -> None:
        self.identity = identity
        self.received = 0
        self.verdicts: deque[Verdict] = deque()
        if record is not None:
            self.received, verdicts = bus.unpack(record)
            self.verdicts.extend(cast(list[Verdict], to_acceptor.OPERATIONS.read(verdicts)))
        self.safe = self.reported = self.received
        self.greeted = False
        self.source = Source()
        role, index, self.incarnation = incarnation_of(identity)
        self.receiver = index if role == "acceptor" else None
        self.turn = bus.Turn(self.receiver)
        self.waiting: list[tuple[int, int, list[Operation], Sequence[Any]]] = []
        self.consumers: dict[int, Consumer] = {}
        self.groups: dict[int, Group] = {}
        self.outlets: WeakValueDictionary[int, Outlet] = WeakValueDictionary()
        self.lending: Lending | None = None
        self.replies: set[str] = set()
        self.promised: deque[tuple[int, Operation]] = deque()
        self.reserved: dict[int, list[tuple[QueueState, int, int]]] = {}

    @property
    def is_acceptor(self) -> bool:
        return self.receiver is not None

    def remember(self, consumer: Consumer, channel: Group) -> None:
        """Keep a consumer, or the gets of a channel, until it is forgotten or its channel is gone."""
        self.consumers[consumer.id] = consumer
        consumer.channel = channel
        channel.members.add(consumer)

    def forget(self, consumer: Consumer) -> None:
        """Forget a consumer that is gone."""
        self.consumers.pop(consumer.id, None)
        consumer.channel.members.discard(consumer)

    def deliver(self, consumer: Consumer, item: Range) -> None:
        """Add a Deliver of a range to the turn."""
        part = self.turn.place_batch(item.batch, item.first, item.count)
        self.turn.add(to_acceptor.Deliver(consumer.id, item.sequence, part, item.count, item.redelivered))

    def reply(self, request: int, result: Any, error: Any = None) -> None:
        """Add the Reply to a request to the turn."""
        self.turn.add(to_acceptor.Reply(request, result, error))

    def send_when_safe(self, operation: Operation) -> None:
        """Send an operation behind the report that the turn being applied is safe, and behind the turn's refusals."""
        self.promised.append((self.received, operation))

    def send_dequeued(self) -> None:
        """Announce which messages have left saturated queues, once their turns are safe (Dequeued).

        Messages that left other queues are kept until the acceptor confirms the report of their turn: until then it
        would withhold their confirms if the queue became saturated.
        """
        left = self.source.left
        assert left is not None
        kept = []
        rows: dict[int, list[int]] = {}
        for leaving in left:
            queue, origin, first, count = leaving
            if queue.contents.stopped:
                rows.setdefault(queue.id, []).extend((origin.turn, origin.index, first, count))
            elif origin.turn > self.source.last_report:
                kept.append(leaving)
        self.source.left = kept
        for id, gone in rows.items():
            if self.safe == self.received:
                self.turn.add(to_acceptor.Dequeued(id, gone))
            else:
                self.send_when_safe(to_acceptor.Dequeued(id, gone))

    def end(self) -> None:
        """The peer is gone: stop recording departures for it, and drop its waiting turns."""
        self.source.left = None
        self.waiting = []

    def refuse(self, request: int, code: int, text: str) -> None:
        """Reply to a request with an AMQP error."""
        self.reply(request, None, [code, text])

    # Safe turns

    def greet(self) -> None:
        """A hello arrived: repeat the verdicts, which the peer may not have received."""
        self.greeted = True
        self.turn.operations.extend(self.verdicts)

    def record(self) -> bytes:
        """The state that the shard's next incarnation needs to answer a hello, once all applied turns are safe."""
        return bus.pack([self.received, to_wires([*self.verdicts])])

    def make_safe(self, turn: int) -> None:
        """Make all turns up to `turn` safe: send their verdicts and the operations promised with them."""
        for verdict in self.verdicts:
            if self.safe < verdict.turn <= turn:
                self.turn.add(verdict)
        self.safe = turn
        while self.promised and self.promised[0][0] <= turn:
            self.turn.add(self.promised.popleft()[1])

    def report_received(self, last_report: int) -> None:
        """The peer has received the reports up to `last_report`."""
        self.source.last_report = last_report
        while self.verdicts and self.verdicts[0].turn <= last_report:
            self.verdicts.popleft()

    def close_turn(self) -> tuple[bytes, list[Any]] | None:
        """The multipart to send, or None if there is nothing to send."""
        if not self.turn.operations and self.safe == self.reported and not self.greeted:
            return None
        frames = self.turn.frames(self.safe, 0)
        self.reported = self.safe
        self.greeted = False
        self.turn = bus.Turn(self.receiver)
        return self.identity, frames
