"""What a shard keeps for one acceptor: its consumers, and the turn being written for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from penstock import bus
from shard.contents.segment_cy import Range, Source
from shard.queue.consumer_cy import Consumer, Group

if TYPE_CHECKING:
    from shard.queue.lending import Lending
    from shard.queue.outlet_cy import Outlet
    from shard.queue.queue_state import QueueState


@lru_cache(maxsize=1024)
def life_of(identity: bytes) -> tuple[str, int, int]:
    """Role, index and incarnation in `acceptor.INDEX.INCARNATION` or `shard.INDEX.INCARNATION`."""
    role, index, incarnation = identity.split(b".")
    return role.decode(), int(index), int(incarnation)


def safe_turn(record: bytes | None) -> int:
    """The turn that a record of a link (`Link.record`) is of; 0 for none."""
    return 0 if record is None else int(bus.unpack(record)[0])


def safe_record(turn: int) -> bytes:
    """A record of a turn of which nothing was refused."""
    return bus.pack([turn, []])


class Link:
    """One life of one acceptor, or of another shard, which only publishes (dead letters) and is told nothing.

    `taken` is its last turn that was taken in, `safe` the last one whose effects outlive the shard, `reported` the last
    one that it was told to be so. `verdicts` are the operations that say what of its publishes was refused, in the
    order of their turns; each leaves with the report of its turn and is kept until that is heard.

    `reserved` is the room, messages and octets, that is kept in queues for the transactions of channels, by group.
    `promised` are operations that leave when their turn is safe, each with that; a later life is asked again.
    `outlets` are those of connections that have consumers here, `lending` what their users may have under way.
    `greeted` is set from the other's hello until it is answered; `waiting` holds turns that are ahead of the shard's
    topology; `receiver` is the acceptor's index. `source` is what its messages know of it.
    """

    __slots__ = (
        "consumers", "greeted", "groups", "identity", "incarnation", "lending", "outlets", "promised", "receiver",
        "replies", "reported", "reserved", "safe", "source", "taken", "turn", "verdicts", "waiting",
    )  # fmt: skip

    def __init__(self, identity: bytes, record: bytes | None = None) -> None:
        self.identity = identity
        self.taken = 0
        self.verdicts: deque[list[Any]] = deque()
        if record is not None:
            self.taken, verdicts = bus.unpack(record)
            self.verdicts.extend(verdicts)
        self.safe = self.reported = self.taken
        self.greeted = False
        self.source = Source()
        role, index, self.incarnation = life_of(identity)
        self.receiver = index if role == "acceptor" else None
        self.turn = bus.Turn(self.receiver)
        self.waiting: list[tuple[int, int, list[list[Any]], Sequence[Any]]] = []
        self.consumers: dict[int, Consumer] = {}
        self.groups: dict[int, Group] = {}
        self.outlets: WeakValueDictionary[int, Outlet] = WeakValueDictionary()
        self.lending: Lending | None = None
        self.replies: set[str] = set()
        self.promised: deque[tuple[int, list[Any]]] = deque()
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
        self.consumers.pop(consumer.id, None)
        consumer.channel.members.discard(consumer)

    def deliver(self, consumer: Consumer, item: Range) -> None:
        part = self.turn.place_batch(item.batch, item.first, item.count)
        operation = [bus.DELIVER, consumer.id, item.sequence, part, item.count, item.redelivered]
        self.turn.operations.append(operation)

    def reply(self, request: int, result: Any, error: Any = None) -> None:
        self.turn.operations.append([bus.REPLY, request, result, error])

    def reply_when_safe(self, request: int, result: Any) -> None:
        """Answer once the turn that is being taken in is safe."""
        self.tell_when_safe(bus.REPLY, request, result, None)

    def tell_when_safe(self, *operation: Any) -> None:
        """Say this behind the report that the turn which is being taken in is safe, and what was refused of it."""
        self.promised.append((self.taken, list(operation)))

    def tell_dequeued(self) -> None:
        """Of the messages that have left, say which have left saturated queues, once their turns are safe. What has
        left others is kept until the acceptor has heard that it was taken in: until then it would withhold its confirm
        if the queue stopped.
        """
        left = self.source.left
        assert left is not None
        kept = []
        rows: dict[int, list[int]] = {}
        for leaving in left:
            queue, origin, first, count = leaving
            if queue.contents.stopped:
                rows.setdefault(queue.id, []).extend((origin.turn, origin.index, first, count))
            elif origin.turn > self.source.heard:
                kept.append(leaving)
        self.source.left = kept
        for id, gone in rows.items():
            if self.safe == self.taken:
                self.turn.operations.append([bus.DEQUEUED, id, gone])
            else:
                self.tell_when_safe(bus.DEQUEUED, id, gone)

    def end(self) -> None:
        """The other is gone: nobody is told of what leaves, and what waits is not taken in."""
        self.source.left = None
        self.waiting = []

    def refuse(self, request: int, code: int, text: str) -> None:
        self.reply(request, None, [code, text])

    # What is safe

    def greet(self) -> None:
        """The other asks what is safe of its turns; it may never have heard what is known of those."""
        self.greeted = True
        self.turn.operations += self.verdicts

    def record(self) -> bytes:
        """What the next life of the shard has to know to answer a hello, once all that was taken in is safe."""
        return bus.pack([self.taken, list(self.verdicts)])

    def make_safe(self, turn: int) -> None:
        """All turns up to that one are safe: this is reported, and what became of them."""
        for verdict in self.verdicts:
            if self.safe < verdict[1] <= turn:
                self.turn.operations.append(verdict)
        self.safe = turn
        while self.promised and self.promised[0][0] <= turn:
            self.turn.operations.append(self.promised.popleft()[1])

    def hear(self, heard: int) -> None:
        """The other has heard that report."""
        self.source.heard = heard
        while self.verdicts and self.verdicts[0][1] <= heard:
            self.verdicts.popleft()

    def close_turn(self) -> tuple[bytes, list[Any]] | None:
        """The multipart to send, if there is anything to say."""
        if not self.turn and self.safe == self.reported and not self.greeted:
            return None
        frames = self.turn.frames(self.safe, 0)
        self.reported = self.safe
        self.greeted = False
        self.turn = bus.Turn(self.receiver)
        return self.identity, frames
