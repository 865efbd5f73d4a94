"""The operations that a shard receives, from acceptors and from other shards.

`part` is the index of the first of an operation's parts in its turn. A request is answered by a Reply that repeats its
`request`, a number which the sender's link chooses as the request leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.bus.operations_cy import Operations

OPERATIONS = Operations()


@OPERATIONS.number(1)
class Publish(NamedTuple):
    """Enqueue `messages` of a batch, from row `first`, in queues given by id, or pass them to reply consumers given by
    name. If they are `resent`, an earlier incarnation of the shard may have received and delivered them. `age` is the
    time that they were parked, in milliseconds, if they may expire. A message that is traced is the only one; `trace`
    is its place in its trace (`penstock.tracing.trace_context`).
    """

    queues: Sequence[int | str]
    part: int
    first: int
    messages: int
    resent: bool = False
    age: int = 0
    trace: tuple[bytes, bytes] | None = None


@OPERATIONS.number(2)
class Settle(NamedTuple):
    """Settle deliveries: rows of `penstock.batch.settlement_rows`."""

    part: int


@OPERATIONS.number(3)
class Window(NamedTuple):
    """Open consumers' windows by the bytes of whole messages that went to the socket."""

    written: dict[int, int]


@OPERATIONS.number(4)
class Consume(NamedTuple):
    """Attach a consumer; the reply is its age. `age` is 0 for a new consumer; a re-attached one has the age that an
    earlier incarnation of the shard gave it. It is `elected` if it was the single active consumer of its queue.

    `limit` and `nbytes` are those of its channel: see Limit and Unacked. `lease`, if its unacked messages are leased
    (shard/serving/leases.py), is the id of the lease, the microseconds that it outlives its consumer, and "ack" or
    "requeue" to end it, or nothing.
    """

    consumer: int
    queue: int
    no_ack: bool
    exclusive: bool
    prefetch: int
    group: int
    limit: int
    active: bool
    priority: int
    age: int
    elected: bool
    user: str
    nbytes: int
    lease: tuple[str, int, str] | None = None
    request: int = 0


@OPERATIONS.number(5)
class Cancel(NamedTuple):
    """Cancel a consumer; the reply has no result."""

    consumer: int
    request: int = 0


@OPERATIONS.number(6)
class Get(NamedTuple):
    """Deliver one message to the gets of a channel (basic.get); the reply is `to_acceptor.Got`, or None."""

    consumer: int
    queue: int
    no_ack: bool
    group: int
    request: int = 0


@OPERATIONS.number(7)
class Purge(NamedTuple):
    """Drop a queue's ready messages; the reply is their number."""

    queue: int
    request: int = 0


@OPERATIONS.number(8)
class Delete(NamedTuple):
    """Have a queue deleted; the reply is the number of its ready messages."""

    queue: int
    if_unused: bool
    if_empty: bool
    request: int = 0


@OPERATIONS.number(9)
class Stat(NamedTuple):
    """Count a queue's ready messages and its consumers; the reply is a list of both."""

    queue: int
    request: int = 0


@OPERATIONS.number(10)
class Limit(NamedTuple):
    """Set the prefetch limit that the consumers of a channel share; 0 is none; below 0 the acceptor enforces it, by
    Grant. The reply has no result.
    """

    group: int
    limit: int
    request: int = 0


@OPERATIONS.number(11)
class Active(NamedTuple):
    """Stop or resume deliveries to consumers (channel.flow of a client); the reply has no result."""

    consumers: Sequence[int]
    active: bool
    request: int = 0


@OPERATIONS.number(12)
class Gone(NamedTuple):
    """A channel has ended: requeue the unacked messages of its consumers and gets."""

    group: int


@OPERATIONS.number(13)
class Commit(NamedTuple):
    """Apply a transaction: the `publishes` Publish operations that follow, and the settlements of a part (rows as of
    Settle), or nothing of it if a queue refuses any of them. `powerless` queues enqueue as much as they have room for
    and refuse the rest for themselves only.
    """

    publishes: int
    settlements: int | None
    powerless: Sequence[int]


@OPERATIONS.number(14)
class Grant(NamedTuple):
    """Let the consumers of a channel be sent a number of messages within this turn."""

    group: int
    messages: int


@OPERATIONS.number(15)
class Replies(NamedTuple):
    """A reply consumer is `there`, or not any more (`penstock.amqp.replies`)."""

    name: str
    there: bool


@OPERATIONS.number(16)
class RepliesTo(NamedTuple):
    """Ask for a reply consumer; the reply is whether it exists."""

    name: str
    request: int = 0


@OPERATIONS.number(17)
class Reserve(NamedTuple):
    """Reserve exactly this room for the transaction of a channel: id, messages and bytes for each queue. None of it, or
    Gone, releases it. The reply is None, or the id of a queue that has no room.
    """

    group: int
    needs: Sequence[Sequence[int]]
    request: int = 0


@OPERATIONS.number(18)
class Hold(NamedTuple):
    """Restore the unacked messages that an earlier incarnation of the shard delivered, whether their consumers are
    attached or not: rows as of Settle, those of kind requeue for messages that were returned. Each holder is a
    consumer's id, its queue's id, its group, and whether it stands for gets.

    An acceptor sends it once to each incarnation, in the first turn, after a Consume for each consumer: nothing is
    delivered before the Hold of all acceptors has arrived.
    """

    holders: Sequence[Sequence[int]]
    part: int


@OPERATIONS.number(19)
class Lagging(NamedTuple):
    """A queue is lagging: publishes to several queues go on although it is saturated, until it has room."""

    queue: int


@OPERATIONS.number(20)
class Fence(NamedTuple):
    """Nothing more is published to a moving queue from here (docs/rebalancing.md); answered by Fenced."""

    queue: int
    epoch: int


@OPERATIONS.number(21)
class Drained(NamedTuple):
    """Nothing more of a moving queue is settled from here; from a shard: no more dead letters for it."""

    queue: int
    epoch: int


@OPERATIONS.number(22)
class Reattached(NamedTuple):
    """Consume and Hold have named a moved queue's unacked messages to its new shard."""

    queue: int
    epoch: int


@OPERATIONS.number(23)
class Waiters(NamedTuple):
    """The fair share weight of the channels that wait here for a queue's room."""

    queue: int
    weight: int


@OPERATIONS.number(24)
class Excused(NamedTuple):
    """The amount published here regardless of the queues' marks."""

    queues: Sequence[int]
    messages: int
    nbytes: int


@OPERATIONS.number(25)
class Paced(NamedTuple):
    """What an acceptor asks of a paced queue: the fair share weight of the channels that wait for its room, the queue's
    target in messages as seen there, and how many of the messages admitted by Room were sent in this turn, or are
    returned. A negative `used` voids all earlier Room except for ~used messages still to come, as after a shard's
    death.
    """

    queue: int
    weight: int
    target: int
    used: int


@OPERATIONS.number(26)
class Prefetch(NamedTuple):
    """Set the prefetch of consumers; the reply has no result."""

    consumers: Sequence[int]
    prefetch: int
    request: int = 0


@OPERATIONS.number(27)
class Prepare(NamedTuple):
    """Keep this shard's part of a transaction over several shards (shard/transactions/two_phase.py): as Commit, but
    nothing is applied, and no queue refuses it; it uses the room reserved for the group. Transactions are numbered by
    their acceptor.
    """

    publishes: int
    settlements: int | None
    powerless: Sequence[int]
    number: int
    group: int
    decider: int


@OPERATIONS.number(28)
class Prepared(NamedTuple):
    """Ask for a part; the reply, once the part is safe, is whether the store has it."""

    number: int
    request: int = 0


@OPERATIONS.number(29)
class Decide(NamedTuple):
    """Decide to commit; `stored` says whether a store has any part. The reply comes once the decision is safe."""

    number: int
    others: Sequence[int]
    stored: bool
    request: int = 0


@OPERATIONS.number(30)
class Do(NamedTuple):
    """Apply a part of a decided transaction; the reply comes once that is safe."""

    number: int
    request: int = 0


@OPERATIONS.number(31)
class InDoubt(NamedTuple):
    """From a shard: ask for the outcome of the transaction with an id (shard/store/stored.py)."""

    transaction: bytes


@OPERATIONS.number(32)
class Outcome(NamedTuple):
    """From a shard: whether a transaction is to be done."""

    transaction: bytes
    commits: bool


@OPERATIONS.number(33)
class Done(NamedTuple):
    """From a shard: a transaction is done there, and that is safe."""

    transaction: bytes


@OPERATIONS.number(34)
class Unacked(NamedTuple):
    """Limit the bytes of a channel's unacked messages from this shard; 0 is no limit."""

    group: int
    nbytes: int


@OPERATIONS.number(35)
class Precopied(NamedTuple):
    """From a shard: it has written so many bytes of the copy of an open queue that is to move here."""

    queue: int
    epoch: int
    nbytes: int


@OPERATIONS.number(36)
class Adopted(NamedTuple):
    """From a shard: so many bytes of the copy of a queue are in its store."""

    queue: int
    epoch: int
    nbytes: int


Request = (
    Consume | Cancel | Get | Purge | Delete | Stat | Limit | Active | RepliesTo | Reserve | Prefetch
    | Prepared | Decide | Do
)  # fmt: skip
"""Operations that are answered by a Reply."""

OF_QUEUE = Consume | Get | Purge | Delete | Stat
"""Requests about one queue."""
LEAVES_IN_GROUP = Consume | Get | Limit | Reserve
"""Requests that leave something behind for the group of a channel."""
