"""The operations that an acceptor receives from shards. `part` is the index of the first of an operation's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.bus.operations_cy import Operations

OPERATIONS = Operations()


@OPERATIONS.number(1)
class Deliver(NamedTuple):
    """Write a range of a queue's messages, by sequence number, to a consumer."""

    consumer: int
    sequence: int
    part: int
    messages: int
    redelivered: bool


@OPERATIONS.number(2)
class Reply(NamedTuple):
    """The answer to a request: a result, or an error as reply code and text."""

    request: int
    result: Any
    error: Sequence[Any] | None = None


@OPERATIONS.number(3)
class Flow(NamedTuple):
    """A queue's flow state has changed; flow epochs count the changes. `moment` is that of the decision, in µs of the
    node's clock.
    """

    queue: int
    saturated: bool
    epoch: int
    moment: int


@OPERATIONS.number(4)
class Cancelled(NamedTuple):
    """A consumer has ended: its queue was deleted, or an exclusive consumer was re-attached."""

    consumer: int


@OPERATIONS.number(5)
class Rejected(NamedTuple):
    """A queue has refused rows of a publish, given by turn and index of the Publish in it. Kept in the shard's store
    (`shard.turns.link.Link.record`).
    """

    turn: int
    publish: int
    queue: int
    first: int
    messages: int


@OPERATIONS.number(6)
class Refused(NamedTuple):
    """A queue has no room for a transaction, given by turn and index of the Commit in it. Kept in the shard's store."""

    turn: int
    commit: int
    queue: int


@OPERATIONS.number(7)
class Hungry(NamedTuple):
    """Messages are ready for a channel's consumers that lack a Grant; sent once until a Grant arrives."""

    group: int


@OPERATIONS.number(8)
class Spent(NamedTuple):
    """A Grant of `messages` was used or is void; its deliveries precede this."""

    group: int
    messages: int


@OPERATIONS.number(9)
class Answers(NamedTuple):
    """Write answers to a reply consumer."""

    name: str
    part: int
    messages: int


@OPERATIONS.number(10)
class Elected(NamedTuple):
    """A consumer becomes the active one of its queue."""

    consumer: int


@OPERATIONS.number(11)
class Fenced(NamedTuple):
    """Everything before Fence is safe; the queue delivers nothing, and requests about it go unanswered, before
    Reattached.
    """

    queue: int
    epoch: int


@OPERATIONS.number(12)
class Opened(NamedTuple):
    """All acceptors have sent Reattached, or died."""

    queue: int
    epoch: int


@OPERATIONS.number(13)
class MostWaiters(NamedTuple):
    """The largest of the weights that acceptors have reported for a queue by Waiters, and their sum."""

    queue: int
    largest: int
    total: int


@OPERATIONS.number(14)
class Room(NamedTuple):
    """How many more messages may be sent to a paced queue."""

    queue: int
    messages: int


@OPERATIONS.number(15)
class Dequeued(NamedTuple):
    """Publishes that have left a saturated queue for good: turn, index of the Publish in it, first row and count of
    each, one after the other. Their turns are safe. Sent only of publishes whose confirms may be withheld.
    """

    queue: int
    rows: Sequence[int]


@OPERATIONS.number(16)
class ReportWritten(NamedTuple):
    """Report what leaves for the sockets of this shard's consumers at once (Window), or, from now on again, once it is
    an eighth of a window.
    """

    at_once: bool


@OPERATIONS.number(17)
class Traced(NamedTuple):
    """A message of the deliveries to a consumer before this one is traced: its place in its trace, and when it left its
    queue, in µs of the node's clock.
    """

    consumer: int
    trace: tuple[bytes, bytes]
    moment: int


class Got(NamedTuple):
    """The result of a Get: the message, a part of the same turn, and the number of messages that remain ready."""

    sequence: int
    part: int
    redelivered: bool
    remaining: int
