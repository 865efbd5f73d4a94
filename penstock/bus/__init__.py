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

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgpack

from penstock.batch.arena import Loan
from penstock.batch.batch_cy import Batch
from penstock.bus.operations_cy import Operation, Operations, to_wires

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


def unpack_stream(file: Any, bytes_max: int) -> Iterator[Any]:
    """The values of a file that were packed one after the other, each of at most `bytes_max` bytes.

    A truncated last value is left out. ValueError or msgpack.UnpackException if the file holds something else.
    """
    unpacker: Iterator[Any] = msgpack.Unpacker(
        file, max_buffer_size=bytes_max, strict_map_key=False, unicode_errors="surrogateescape",
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


Head = tuple[int, int, int, list[Operation], list[Any], int]
"""The head of a turn, as above."""


def read_head(frame: Any, receives: Operations) -> Head:
    """Return the head of a turn for a process that receives these operations. ValueError if it is none."""
    turn, version, last_report, operations, parts, apart = unpack(frame)
    return turn, version, last_report, receives.read(operations), parts, apart


class Turn:
    """A turn under construction: operations and the parts that they point to.

    `receiver` is the index of the shard or acceptor that parts in an arena are lent to (None: they are not lent),
    `lent` the bytes that were lent.
    """

    __slots__ = ("lent", "operations", "parts", "placed", "receiver")

    def __init__(self, receiver: int | None = None) -> None:
        self.receiver = receiver
        self.lent = 0
        self.operations: list[Operation] = []
        self.parts: list[Any] = []
        # Keeps the batch alive: else another object could get its id before the turn ends.
        self.placed: dict[tuple[int, int, int], tuple[int, Batch]] = {}

    def add(self, operation: Operation) -> int:
        """Append an operation; return its index."""
        self.operations.append(operation)
        return len(self.operations) - 1

    def reserve(self) -> int:
        """Append a place for an operation that is known only when the turn is complete; return its index."""
        self.operations.append(())
        return len(self.operations) - 1

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

    def frames(self, turn: int, version: int, last_report: int = 0) -> list[Any]:
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
        return [_heads.pack([turn, version, last_report, to_wires(self.operations), places, large]), *apart]


def batch_at(parts: Sequence[Any], part: int) -> Batch:
    """The batch that an operation points to. ValueError or IndexError if there is none."""
    return Batch(parts[part], parts[part + 1])


def taken_home(batch: Batch) -> Batch:
    """The batch with contents of its own: contents in an arena are copied, for a batch that is kept."""
    return batch if loan_of(batch.contents) is None else Batch(batch.entries, bytes(batch.contents))
