"""What acceptors, shards and the router say to each other, in one place.

Acceptor and shard exchange *turns*: one ZeroMQ multipart per pair and turn of the sender's loop. The first frame is a
msgpack head with the operations and the parts that they point into by index. A small part lies in the head; a large one
is a frame of its own, and None in the head; one that lies in an arena is lent (`penstock.batch.arena`). A batch is two
parts, its rows and its contents (see batch_cy). Nothing in the head is per message: a run of publishes, a range of
deliveries or a run of settlements is one operation.

    head = [turn, version, heard, [operation, ...], [part | None | reference, ...], number of parts not in the head]

    acceptor -> shard   turn: its number; version: of the topology that it was routed by; heard: the last report
    shard -> acceptor   turn: the report, that is the last turn that is safe; version, heard: 0

The turns of an acceptor are numbered from 1, through all lives of the shard. A turn is *safe* once a later life of the
shard would know what it did; reports are cumulative, and the acceptor confirms by them. What a report comes with
(REJECTED, REFUSED) is kept by the shard, in its store as well, until the acceptor says that it has heard the report.

The first that an acceptor says to a life of a shard is turn 0, *hello*, which has no operations. The answer is the last
of its turns that is safe, and only then it goes on: it sends again what came after that one, under new numbers.

The shard holds a turn back until its own topology is at least at the turn's version. A request carries a number of the
sender's choice, repeated in its REPLY.

A shard sends another one PUBLISH (dead letters), PARTED and what is said of transactions, in turns of the same kind,
and hears back what is safe.

Acceptor, shard -> router   one frame: [request, name, {argument: value}]
Router -> them              one frame: [request, topology version, result, None | [reply code, text]]
Router, to all (PUB)        one frame: [topology version, [change, ...]]
Supervisor, to all (PUB)    one frame: ["started" | "died", role, index, incarnation, pid]
Child -> supervisor         one frame: ["ready", role, index, incarnation, pid]
Router -> supervisor        one frame: ["restart", role, 0, 0, pid]: replace the processes of a role
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgpack

from penstock.batch.arena import Loan
from penstock.batch.batch_cy import Batch

# Acceptor to shard. `part` is the index of the first of the operation's parts.
# [PUBLISH, [queue id | name of a reply consumer, ...], part, first row, count], and behind that whether an earlier
# life of the shard may have taken it in, and delivered it, and how many milliseconds it was parked if it may expire.
PUBLISH = 1
SETTLE = 2  # [SETTLE, part]: rows of consumer, sequence, count, kind (shard/queue_cy.settle_rows)
WINDOW = 3  # [WINDOW, {consumer: octets that left for the socket, of messages as they count whole}]
# [CONSUME, request, consumer, queue id, no_ack, exclusive, prefetch, group, group limit, active, priority, age,
# elected, user, octets] -> age, and [id of a lease, microseconds that it outlives its consumer, "ack" or "requeue" to
# end it, or nothing] behind that if what the consumer has in hand is leased (shard/serving/leases.py). The age is 0 for
# a new one; one that was attached to an earlier life of the shard has that which it got there. It is elected if it was
# the active one of a queue with a single one. The octets are as of UNACKED.
CONSUME = 4
CANCEL = 5  # [CANCEL, request, consumer] -> None
GET = 6  # [GET, request, consumer, queue id, no_ack, group] -> None | [sequence, part, redelivered, messages left]
PURGE = 7  # [PURGE, request, queue id] -> messages
DELETE = 8  # [DELETE, request, queue id, if_unused, if_empty] -> messages
STAT = 9  # [STAT, request, queue id] -> [ready messages, consumers]
# [LIMIT, request, group, limit] -> None: the prefetch limit that the consumers of a channel share; 0 is none, below 0
# it is the acceptor's to keep, by grants
LIMIT = 10
ACTIVE = 11  # [ACTIVE, request, [consumer, ...], active] -> None: channel.flow of a client
PREFETCH = 26  # [PREFETCH, request, [consumer, ...], prefetch] -> None: that is their limit from now on
# [UNACKED, group, octets]: what the consumers of a channel may have in hand from this shard; 0 is no limit
UNACKED = 34
GONE = 12  # [GONE, group]: a channel ended; what its consumers and gets have in hand is requeued
GRANT = 14  # [GRANT, group, count]: so many messages may be sent to its consumers within this turn
# [COMMIT, publishes, part | None, [queue id, ...]]: a transaction. The PUBLISH operations that follow, that many, are
# taken in together with the settlements of the part (as of SETTLE), or none of it where a queue refuses some. The
# queues that are named take what they have room for; what they refuse, they refuse for themselves.
COMMIT = 13
# Of a transaction over several shards (shard/transactions/two_phase.py), which its acceptor numbers:
# [PREPARE, publishes, part | None, [queue id, ...], number, group, deciding shard]: the part of this shard, as of
# COMMIT, but it is only kept, and none refuses; the room that was kept for the group is its own.
PREPARE = 27
PREPARED = 28  # [PREPARED, request, number] -> whether the store has it, once that is kept
DECIDE = 29  # [DECIDE, request, number, [other shard, ...], whether a store has any of it] -> None, once it is kept
DO = 30  # [DO, request, number] -> None: it is decided; once it is kept that the part is done
# [RESERVE, request, group, [[queue id, messages, octets], ...]] -> None | id of a queue that has no room: room is kept
# for the transaction of a channel, that and no more; with an empty list none, nor after GONE.
RESERVE = 17
REPLIES = 15  # [REPLIES, name, there]: a reply consumer comes or goes (see penstock/amqp/replies.py)
# [HOLD, [[consumer, queue id, group, whether it stands for gets], ...], part]: what consumers that an earlier life of
# the shard delivered to have in hand, be they attached or not; rows as of SETTLE, those of kind requeue being of what
# they gave back. Said once to each life, after a CONSUME for each consumer, in the first turn: before that of all
# acceptors has come nothing is delivered.
HOLD = 18
LEFT = 19  # [LEFT, queue id]: publishes to several queues go on though this one is saturated, until it has room
EXCUSED = 24  # [EXCUSED, [queue id, ...], messages, octets]: so much of what is published comes whatever the marks
WAITERS = 23  # [WAITERS, queue id, weight]: of the sessions that wait for its room here
# [PACED, queue id, weight, target, used]: of the sessions that wait here for a paced queue's room, and how many
# messages it is to hold as seen here; so many of those given by ROOM have gone, in this turn, or are given back. Below
# 0: what was given before is void, but for ~used that still come, as after the death of a shard.
PACED = 25
# Of a queue that moves (docs/rebalancing.md), each with its id and the epoch of the move:
FENCE = 20  # [FENCE, queue id, epoch]: nothing more is published to it from here; answered by FENCED
PARTED = 21  # [PARTED, queue id, epoch]: nor is anything settled from here; from a shard: no dead letters come
HOMED = 22  # [HOMED, queue id, epoch]: its home has been told, by CONSUME and HOLD, what is in hand of it
REPLIES_TO = 16  # [REPLIES_TO, request, name] -> whether there is such a reply consumer

# Shard to shard, of the transaction with an id (shard/store/stored.py).
IN_DOUBT = 31  # [IN_DOUBT, id]: what becomes of it?
OUTCOME = 32  # [OUTCOME, id, whether it is done]
DONE = 33  # [DONE, id]: it is kept that it is done here

# Shard to acceptor.
DELIVER = 1  # [DELIVER, consumer, sequence, part, count, redelivered]
REPLY = 2  # [REPLY, request, result, None | [reply code, text]]
FLOW = 3  # [FLOW, queue id, saturated, flow epoch]
CANCELLED = 4  # [CANCELLED, consumer]: its queue was deleted, or an exclusive consumer came back
REJECTED = 5  # [REJECTED, turn, index of the PUBLISH in it, queue id, first row, count]
HUNGRY = 7  # [HUNGRY, group]: messages are ready for its consumers that lack a GRANT; said once until one comes
SPENT = 8  # [SPENT, group, count]: a GRANT of so many was taken in, its deliveries came before this
ELECTED = 10  # [ELECTED, consumer]: from now on it is the active one of its queue
ANSWERS = 9  # [ANSWERS, name of a reply consumer, part, count]
# [FENCED, queue id, epoch]: what came before FENCE is safe; no more of the queue is delivered, and no request about it
# answered, before HOMED.
FENCED = 11
OPENED = 12  # [OPENED, queue id, epoch]: all acceptors have said HOMED, or died
MOST_WAITERS = 13  # [MOST_WAITERS, queue id, largest, sum]: of the weights that acceptors have told by WAITERS
ROOM = 14  # [ROOM, queue id, messages]: so many more may be sent to a paced queue
# [DEQUEUED, queue id, [turn, index of the PUBLISH in it, first row, count, ...]]: these have left a saturated queue for
# good; their turns are safe. Said only of those whose confirms may be withheld.
DEQUEUED = 15
REFUSED = 6  # [REFUSED, turn, index of the COMMIT in it, id of the queue that has no room for it]

# The turn that an acceptor or a shard greets each life of another shard with.
HELLO = 0
# Parts from this size on are frames of their own.
IN_HEAD = 4096
# Octets that every message counts in a consumer's window beside its body.
# The group of a channel is the number of its connection, and in so many lower bits its own.
GROUP_BITS = 32
MESSAGE_WEIGHT = 64


def pack(value: object) -> bytes:
    """One frame of msgpack. Text that came off the wire undecodable keeps its octets."""
    packed: bytes = _packer().pack(value)
    return packed


def unpack(frame: Any) -> Any:
    """The value of one frame. ValueError if it is not msgpack."""
    return msgpack.unpackb(frame, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_unpack_decimal)


def unpack_stream(file: Any, octets_max: int) -> Iterator[Any]:
    """The values of a file that was packed one after the other, each of at most so many octets.

    One that is cut off is left out. ValueError or msgpack.UnpackException at what is none.
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
    """The loan that a part lies in, if it lies in an arena."""
    owner = part.obj if isinstance(part, memoryview) else None
    return owner if isinstance(owner, Loan) else None


# Of the heads of turns: it keeps its buffer. Turns are made by loops only, others pack in threads too.
_heads = _packer()


class Turn:
    """A turn in the making: operations and the parts that they point into.

    `receiver` is the index of the shard or acceptor that parts in an arena are lent to (None: to nobody), `lent` the
    octets of those that were.
    """

    __slots__ = ("lent", "operations", "parts", "placed", "receiver")

    def __init__(self, receiver: int | None = None) -> None:
        self.receiver = receiver
        self.lent = 0
        self.operations: list[list[Any]] = []
        self.parts: list[Any] = []
        # The batch is kept with its place, or its id could name another one before the turn ends.
        self.placed: dict[tuple[int, int, int], tuple[int, Batch]] = {}

    def __bool__(self) -> bool:
        return bool(self.operations)

    def place(self, part: Any) -> int:
        """Add one part; its frame index."""
        self.parts.append(part)
        return len(self.parts) - 1

    def place_batch(self, batch: Batch, first: int, count: int) -> int:
        """Add rows and contents of a range of a batch, once however often it is placed; the index of the rows."""
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
        """The multipart: the head, then the parts that are too large for it and cannot be lent."""
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
    """The batch with contents of its own: those in an arena are copied, for what is going to stay."""
    return batch if loan_of(batch.contents) is None else Batch(batch.entries, bytes(batch.contents))
