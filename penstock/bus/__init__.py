"""The messages between acceptors, shards, the router and the supervisor.

Acceptor and shard exchange *turns*: one ZeroMQ multipart per pair and turn of the sender's loop. The first frame is a
msgpack head with the operations and the parts that they point to by index. A small part lies in the head; a large one
is a frame of its own, and None in the head; one in an arena is lent (`penstock.batch.arena`). A batch is two parts, its
rows and its contents (see batch_cy). Nothing in the head is per message: a run of publishes, a range of deliveries or a
run of settlements is one operation.

    head = [turn, version, last_report, [operation, ...], [part | None | reference, ...], number of parts apart]

The operations are those of `to_shard` and `to_acceptor`; `docs/bus.md` lists them.

    acceptor -> shard   turn: its number; version: of the topology it was routed by; last_report: the last received
    shard -> acceptor   turn: the report, that is the last turn that is safe; version, last_report: 0

The turns of an acceptor are numbered from 1, through all incarnations of the shard. A turn is *safe* once a later
incarnation of the shard would know its effects; reports are cumulative, and the acceptor confirms by them. The shard
keeps the refusals that accompany a report (Rejected, Refused), in its store as well, until the acceptor acknowledges
that report in `last_report`.

The first turn from an acceptor to an incarnation of a shard is turn 0, *hello*, which has no operations. The shard
answers with the last of the acceptor's turns that is safe, and only then does the acceptor continue: it resends
everything after that turn, under new numbers.

The shard holds a turn back until its own topology is at least at the turn's version. A request carries a number chosen
by the sender, repeated in its Reply.

A shard sends another shard Publish (dead letters), Drained, Precopied, Adopted and the operations of transactions, in
turns of the same kind, and receives reports in return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.batch.batch_cy import Batch
from penstock.bus.operations_cy import Operation, Operations
from penstock.bus.packing import pack, unpack, unpack_stream
from penstock.bus.turn_cy import IN_HEAD, Turn, loan_of

__all__ = [
    "GROUP_BITS", "HELLO", "IN_HEAD", "MESSAGE_WEIGHT", "Head", "Turn", "batch_at", "loan_of", "pack", "read_head",
    "taken_home", "unpack", "unpack_stream",
]  # fmt: skip

# The turn with which an acceptor or a shard greets each incarnation of another shard.
HELLO = 0
# The group of a channel is the number of its connection, and in this many lower bits the channel's own number.
GROUP_BITS = 32
# Bytes that each message counts in a consumer's window in addition to its contents.
MESSAGE_WEIGHT = 64

Head = tuple[int, int, int, list[Operation], list[Any], int]
"""The head of a turn, as above."""


def read_head(frame: Any, receives: Operations) -> Head:
    """Return the head of a turn for a process that receives these operations. ValueError if it is none."""
    turn, version, last_report, operations, parts, apart = unpack(frame)
    return turn, version, last_report, receives.read(operations), parts, apart


def batch_at(parts: Sequence[Any], part: int) -> Batch:
    """The batch that an operation points to. ValueError or IndexError if there is none."""
    return Batch(parts[part], parts[part + 1])


def taken_home(batch: Batch) -> Batch:
    """The batch with contents of its own: contents in an arena are copied, for a batch that is kept."""
    return batch if loan_of(batch.contents) is None else Batch(batch.entries, bytes(batch.contents))
