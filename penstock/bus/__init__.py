"""The messages between acceptors, shards, the router and the supervisor.

Acceptor and shard exchange *turns*: one ZeroMQ multipart per pair and turn of the sender's loop. The first frame is a
msgpack head with the operations and the parts that they point to by index. A small part lies in the head; a large one
is a frame of its own, and None in the head; one in an arena is lent (`penstock.batch.arena`). A batch is two parts, its
rows and its contents (see batch_cy). Nothing in the head is per message: a run of publishes, a range of deliveries or a
run of settlements is one operation.

    head = [turn, version, heard, [operation, ...], [part | None | reference, ...], number of parts not in the head]

    acceptor -> shard   turn: its number; version: of the topology it was routed by; heard: the last report received
    shard -> acceptor   turn: the report, that is the last turn that is safe; version, heard: 0

The turns of an acceptor are numbered from 1, through all incarnations of the shard. A turn is *safe* once a later
incarnation of the shard would know its effects; reports are cumulative, and the acceptor confirms by them. The shard
keeps the refusals that accompany a report (REJECTED, REFUSED), in its store as well, until the acceptor acknowledges
that report in `heard`.

The first turn from an acceptor to an incarnation of a shard is turn 0, *hello*, which has no operations. The shard
answers with the last of the acceptor's turns that is safe, and only then does the acceptor continue: it resends
everything after that turn, under new numbers.

The shard holds a turn back until its own topology is at least at the turn's version. A request carries a number chosen
by the sender, repeated in its REPLY.

A shard sends another shard PUBLISH (dead letters), DRAINED and the operations of transactions, in turns of the same
kind, and receives reports in return.

Acceptor, shard -> router   one frame: [request, name, {argument: value}]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgpack

from penstock.batch.arena import Loan
from penstock.batch.batch_cy import Batch

# Acceptor to shard. `part` is the index of the first of the operation's parts.
# [PUBLISH, [queue id | name of a reply consumer, ...], part, first row, count], followed by whether an earlier
# incarnation of the shard may have received and delivered it, and by the milliseconds it was parked if it may expire.
PUBLISH = 1
SETTLE = 2  # [SETTLE, part]: rows of consumer, sequence, count, kind (shard/queue/consumer_cy.settle_rows)
WINDOW = 3  # [WINDOW, {consumer: bytes of whole messages that went to the socket}]
# [CONSUME, request, consumer, queue id, no_ack, exclusive, prefetch, group, group limit, active, priority, age,
# elected, user, bytes] -> age, followed, if the consumer's unacked messages are leased (shard/serving/leases.py), by
# [id of the lease, microseconds that it outlives its consumer, "ack" or "requeue" to end it, or nothing]. The age is 0
# for a new consumer; a re-attached one has the age that an earlier incarnation of the shard gave it. It is elected if
# it was the single active consumer of its queue. The bytes are those of UNACKED.
CONSUME = 4
CANCEL = 5  # [CANCEL, request, consumer] -> None
GET = 6  # [GET, request, consumer, queue id, no_ack, group] -> None | [sequence, part, redelivered, messages remaining]
PURGE = 7  # [PURGE, request, queue id] -> messages
DELETE = 8  # [DELETE, request, queue id, if_unused, if_empty] -> messages
STAT = 9  # [STAT, request, queue id] -> [ready messages, consumers]
# [LIMIT, request, group, limit] -> None: the prefetch limit that the consumers of a channel share; 0 is none; below 0
# the acceptor enforces it, by grants
LIMIT = 10
ACTIVE = 11  # [ACTIVE, request, [consumer, ...], active] -> None: channel.flow of a client
PREFETCH = 26  # [PREFETCH, request, [consumer, ...], prefetch] -> None: a new limit for these consumers
# [UNACKED, group, bytes]: the limit of a channel's unacked messages from this shard; 0 is no limit
UNACKED = 34
GONE = 12  # [GONE, group]: a channel ended; the unacked messages of its consumers and gets are requeued
GRANT = 14  # [GRANT, group, count]: the number of messages that may be sent to its consumers within this turn
# [COMMIT, publishes, part | None, [queue id, ...]]: a transaction. The following `publishes` PUBLISH operations are
# applied together with the settlements of the part (as of SETTLE), or not at all if a queue refuses any of them. The
# queues that are named accept as much as they have room for; each refuses the rest for itself only.
COMMIT = 13
# Transactions over several shards (shard/transactions/two_phase.py), numbered by their acceptor:
# [PREPARE, publishes, part | None, [queue id, ...], number, group, deciding shard]: this shard's part, as of COMMIT,
# but it is only kept, and no queue refuses it; it uses the room reserved for the group.
PREPARE = 27
PREPARED = 28  # [PREPARED, request, number] -> whether the store has the part, once it is safe
DECIDE = 29  # [DECIDE, request, number, [other shard, ...], whether a store has any part] -> None, once it is safe
DO = 30  # [DO, request, number] -> None: the transaction is decided; answered once the done part is safe
# [RESERVE, request, group, [[queue id, messages, bytes], ...]] -> None | id of a queue that has no room: reserve
# exactly this room for the transaction of a channel; an empty list, or GONE, releases it.
RESERVE = 17
REPLIES = 15  # [REPLIES, name, there]: a reply consumer appears or disappears (see penstock/amqp/replies.py)
# [HOLD, [[consumer, queue id, group, whether it stands for gets], ...], part]: the unacked messages that an earlier
# incarnation of the shard delivered, whether their consumers are attached or not; rows as of SETTLE, those of kind
# requeue for messages that were returned. Sent once to each incarnation, in the first turn, after a CONSUME for each
# consumer: nothing is delivered before the HOLD of all acceptors has arrived.
HOLD = 18
LEFT = 19  # [LEFT, queue id]: the queue is lagging: fan-outs go on although it is saturated, until it has room
EXCUSED = 24  # [EXCUSED, [queue id, ...], messages, bytes]: the amount published here regardless of the queues' marks
WAITERS = 23  # [WAITERS, queue id, weight]: fair share weight of the channels that wait for its room here
# [PACED, queue id, weight, target, used]: fair share weight of the channels that wait here for a paced queue's room;
# the queue's target in messages as seen here; and how many of the messages admitted by ROOM were sent, in this turn, or
# are returned. A negative `used` voids all earlier ROOM except for ~used messages still to come, as after a shard's
# death.
PACED = 25
# Moves of a queue (docs/rebalancing.md), each with the queue's id and the epoch of the move:
FENCE = 20  # [FENCE, queue id, epoch]: nothing more is published to the queue from here; answered by FENCED
DRAINED = (
    21  # [DRAINED, queue id, epoch]: drained: nothing more is settled from here; from a shard: no more dead letters
)
REATTACHED = (
    22  # [REATTACHED, queue id, epoch]: re-attached: CONSUME and HOLD have named its unacked messages to its new shard
)
REPLIES_TO = 16  # [REPLIES_TO, request, name] -> whether there is such a reply consumer

# Shard to shard, of the transaction with an id (shard/store/stored.py).
IN_DOUBT = 31  # [IN_DOUBT, id]: asks for the outcome
OUTCOME = 32  # [OUTCOME, id, whether it is to be done]
DONE = 33  # [DONE, id]: the transaction is done here, and that is safe

# Shard to acceptor.
DELIVER = 1  # [DELIVER, consumer, sequence, part, count, redelivered]
REPLY = 2  # [REPLY, request, result, None | [reply code, text]]
FLOW = 3  # [FLOW, queue id, saturated, flow epoch]
CANCELLED = 4  # [CANCELLED, consumer]: its queue was deleted, or an exclusive consumer was re-attached
REJECTED = 5  # [REJECTED, turn, index of the PUBLISH in it, queue id, first row, count]
HUNGRY = 7  # [HUNGRY, group]: messages are ready for its consumers that lack a GRANT; sent once until a GRANT arrives
SPENT = 8  # [SPENT, group, count]: a GRANT of `count` was used or is void; its deliveries precede this
ELECTED = 10  # [ELECTED, consumer]: the consumer becomes the active one of its queue
ANSWERS = 9  # [ANSWERS, name of a reply consumer, part, count]
# [FENCED, queue id, epoch]: everything before FENCE is safe; the queue delivers nothing, and requests about it go
# unanswered, before REATTACHED.
FENCED = 11
OPENED = 12  # [OPENED, queue id, epoch]: all acceptors have sent REATTACHED, or died
MOST_WAITERS = 13  # [MOST_WAITERS, queue id, largest, sum]: of the weights that acceptors have reported by WAITERS
ROOM = 14  # [ROOM, queue id, messages]: how many more messages may be sent to a paced queue
# [DEQUEUED, queue id, [turn, index of the PUBLISH in it, first row, count, ...]]: these publishes have left a saturated
# queue for good; their turns are safe. Sent only of publishes whose confirms may be withheld.
DEQUEUED = 15
REFUSED = 6  # [REFUSED, turn, index of the COMMIT in it, id of the queue that has no room for it]

# The turn with which an acceptor or a shard greets each incarnation of another shard.
HELLO = 0
# Parts of this size (bytes) or larger are frames of their own.
IN_HEAD = 4096
# The group of a channel is the number of its connection, and in this many lower bits the channel's own number.
GROUP_BITS = 32
# Bytes that each message counts in a consumer's window in addition to its contents.
MESSAGE_WEIGHT = 64


def pack(value: object) -> bytes:
    """One frame of msgpack. Text from the wire that is not UTF-8 keeps its bytes."""
    packed: bytes = _packer().pack(value)
    return packed


def unpack(frame: Any) -> Any:
    """The value of one frame. ValueError if it is not msgpack."""
    return msgpack.unpackb(frame, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_unpack_decimal)


def unpack_stream(file: Any, octets_max: int) -> Iterator[Any]:
    """The values of a file that were packed one after the other, each of at most `octets_max` bytes.

    A truncated last value is left out. ValueError or msgpack.UnpackException if the file holds something else.
    """
    unpacker: Iterator[Any] = msgpack.Unpacker(
        file, max_buffer_size=octets_max, strict_map_key=False, unicode_errors="surrogateescape",
        ext_hook=_unpack_decimal,
    )  # fmt: skip
    return unpacker


_DECIMAL = 1


def _pack_decimal(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _packer() -> msgpack.Packer:
    return msgpack.Packer(unicode_errors="surrogateescape", default=_pack_decimal)


def _unpack_decimal(code: int, data: bytes) -> Decimal:
    if code != _DECIMAL:
        raise ValueError(f"extension type {code} is none of ours")
    return Decimal(data.decode())


def loan_of(part: Any) -> Loan | None:
    """The loan that a part lies in; None if it does not lie in an arena."""
    owner = part.obj if isinstance(part, memoryview) else None
    return owner if isinstance(owner, Loan) else None


# Packs the heads of turns and reuses its buffer: only loops make turns, while `pack` may run in threads.
_heads = _packer()


class Turn:
    """A turn under construction: operations and the parts that they point to.

    `receiver` is the index of the shard or acceptor that parts in an arena are lent to (None: they are not lent),
    `lent` the bytes that were lent.
    """

    __slots__ = ("lent", "operations", "parts", "placed", "receiver")

    def __init__(self, receiver: int | None = None) -> None:
        self.receiver = receiver
        self.lent = 0
        self.operations: list[list[Any]] = []
        self.parts: list[Any] = []
        # Keeps the batch alive: else another object could get its id before the turn ends.
        self.placed: dict[tuple[int, int, int], tuple[int, Batch]] = {}

    def __bool__(self) -> bool:
        return bool(self.operations)

    def place(self, part: Any) -> int:
        """Add one part; return its index."""
        self.parts.append(part)
        return len(self.parts) - 1

    def place_batch(self, batch: Batch, first: int, count: int) -> int:
        """Add rows and contents of a range of a batch, only once for repeated calls; return the index of the rows."""
        key = (id(batch), first, count)
        known = self.placed.get(key)
        if known is not None:
            return known[0]
        rows, contents = batch.slices(first, count)
        self.parts += (rows, contents)
        part = len(self.parts) - 2
        self.placed[key] = (part, batch)
        return part

    def frames(self, turn: int, version: int, heard: int = 0) -> list[Any]:
        """The multipart: the head, then the parts that are too large for the head and cannot be lent."""
        places: list[Any] = []
        apart: list[Any] = []
        large = 0
        for part in self.parts:
            if len(part) < IN_HEAD:
                places.append(part)
                continue
            large += 1
            if self.receiver is not None and (loan := loan_of(part)) is not None:
                places.append(loan.lend(part, self.receiver))
                self.lent += len(part)
            else:
                places.append(None)
                apart.append(part)
        return [_heads.pack([turn, version, heard, self.operations, places, large]), *apart]


def batch_at(parts: Sequence[Any], part: int) -> Batch:
    """The batch that an operation points to. ValueError or IndexError if there is none."""
    return Batch(parts[part], parts[part + 1])


def taken_home(batch: Batch) -> Batch:
    """The batch with contents of its own: contents in an arena are copied, for a batch that is kept."""
    return batch if loan_of(batch.contents) is None else Batch(batch.entries, bytes(batch.contents))
