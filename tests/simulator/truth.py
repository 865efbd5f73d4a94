"""What the documents promise, kept from what the clients know, and checked against what the node does.

Each check names the page that it comes from. What a death makes uncertain is uncertain here for the messages that it
could concern, and for no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from tests.simulator.hashed import chosen, key_of
from tests.simulator.plan import CONSUMER_TIMEOUT, DELAYED, FANOUT, HASH, TEMPORARY, Deed, Mishap, Plan


class Id(NamedTuple):
    """A message: the number of its client, and its own among the client's."""

    client: int
    number: int


LARGEST, BESIDE = 9100, 256
"""The largest body in bytes, and the most that a message counts beside it."""
SUCCESSOR_DIED = "a successor died, the rolling restart ends"
NO_SUCCESSOR = "cannot start a process, the rolling restart ends"
EXPECTED = {
    Mishap.KILL: ("process died", SUCCESSOR_DIED),
    Mishap.HANG: ("process does not respond and is killed", "process died", SUCCESSOR_DIED),
    Mishap.UNFORKABLE: ("cannot start a process", NO_SUCCESSOR),
    Mishap.FULL: ("store in trouble", "store still in trouble"),
    Mishap.UNFLUSHABLE: ("store in trouble", "store still in trouble"),
    **dict.fromkeys((Mishap.ROT, Mishap.MISDIRECT, Mishap.LOSE_WRITE), ("messages are damaged, they are set aside",)),
}
"""Errors that are logged after a mishap."""

DROPPED = "parked publishes dropped with their connection"

At = tuple[str, Id]
"""A message in a queue, or in the grave of one."""


def grave(queue: str) -> str:
    """Return the place of a queue's dead messages."""
    return f"dead of {queue}"


class Fate(Enum):
    """What is known of a publish."""

    SENT = "sent"  # its acceptor may not have read it
    READ = "read"
    CLOSED = "sent on a channel that the broker closed"
    CONFIRMED = "confirmed"
    NACKED = "nacked"
    COMMITTING = "committing"
    COMMITTED = "committed"
    UNDECIDED = "undecided"
    """Its client lost the connection before the answer to the commit."""
    ROLLED_BACK = "rolled back"


@dataclass
class Message:
    """A publish: its queues, whether it was published to one of them by name, when and on which of its client's
    connections, whether it is delayed, and the acceptor that read it.
    """

    queues: tuple[str, ...]
    by_name: bool
    at: float
    connection: int
    delayed: bool = False
    fate: Fate = Fate.SENT
    acceptor: int = -1
    promised_at: float = 0.0
    """When it was confirmed or committed."""


@dataclass
class InQueue:
    """What became of a message in one queue: how often it was delivered, how many deliveries are open, and whether it
    was acked, or rejected for good.
    """

    delivered: int = 0
    open: int = 0
    acked: bool = False
    rejected: bool = False
    gone: bool = False
    """An acceptor has read the ack, or the reject."""


class Truth:
    """The books of one play."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.messages: dict[Id, Message] = {}
        self.places: dict[At, InQueue] = defaultdict(InQueue)
        self.transactions: list[list[Id]] = []
        self.last: dict[tuple[str, int, int], Id] = {}
        self.shard_deaths: list[float] = []
        self.power_cuts: list[tuple[float, float]] = []
        self.largest_commit = 0
        self.departures: list[float] = []
        self.queues = {queue.name: queue for queue in plan.queues}
        self.deadly = {queue.name for queue in plan.queues if plan.drops(queue)}
        """Queues in which messages may die that nobody rejects."""
        self.leaky = {name for name in self.deadly if not self.queues[name].buries}
        """Queues that may lose messages without a word."""
        self.powerless = {queue.name for queue in plan.queues if plan.is_powerless(queue)}
        self.leaky |= {*TEMPORARY}
        self.leaky |= {queue.name for queue in plan.queues if queue.unprivileged and plan.refuses(queue)}
        changed = {operation.queue for operation in plan.operations if operation.deed in (Deed.POLICY, Deed.MOVE)}
        self.shards = {queue.name: queue.shard for queue in plan.queues}
        self.moved = any(operation.deed in (Deed.MOVE, Deed.DRAIN) for operation in plan.operations)
        self.steady = {queue.name for queue in plan.queues if plan.bounds_depth(queue)} - changed
        """Queues that are never deeper than their marks say."""
        self.expected = {words for fault in plan.faults for words in EXPECTED.get(fault.mishap, ())}
        self.acceptor_deaths: dict[int, list[float]] = defaultdict(list)
        self.connections: dict[str, set[int]] = {}
        """The numbers of clients by the ids of their connections."""
        self.dropped: set[int] = set()
        """Clients whose user had more parked publishes than its share when they left."""
        self.bound = tuple(queue.name for queue in plan.queues if queue.bound)
        self.refusing = {queue.name for queue in plan.queues if plan.refuses(queue)}

    # What producers know

    def published(self, id: Id, target: str, now: float, connection: int) -> None:
        """Record a publish that was written."""
        queues: tuple[str, ...] = (target,)
        if target in (FANOUT, DELAYED):
            queues = self.bound
        elif target == HASH:
            queues = chosen(self.bound, key_of(*id))
        by_name, delayed = target not in (FANOUT, HASH, DELAYED), target == DELAYED
        self.messages[id] = Message(queues, by_name, now, connection, delayed)

    def was_read(self, id: Id, acceptor: int) -> None:
        """Record that an acceptor has read a publish."""
        message = self.messages[id]
        message.acceptor = acceptor
        if message.fate is Fate.SENT:
            message.fate = Fate.READ

    def may_be_dropped(self, ids: Iterable[Id]) -> None:
        """Record that the broker has closed the channel of these publishes: parked ones are dropped
        (docs/flow-holding.md).
        """
        for id in ids:
            if self.messages[id].fate in (Fate.SENT, Fate.READ):
                self.messages[id].fate = Fate.CLOSED

    def confirmed(self, id: Id, now: float) -> None:
        """Record an ack of the broker."""
        self.messages[id].fate = Fate.CONFIRMED
        self.messages[id].promised_at = now

    def nacked(self, id: Id) -> None:
        """Record a nack of the broker: only a queue that refuses causes one, or the death of a shard that has stored
        nothing of the message.
        """
        refused = self.may_refuse(self.messages[id])
        resort = self.plan.bounds.last_resort == "nack"
        transient = self.shard_deaths and not {*TEMPORARY}.isdisjoint(self.messages[id].queues)
        assert refused or resort or transient or self.has_forgotten(), f"{id} is nacked, but no queue refuses"
        self.messages[id].fate = Fate.NACKED

    def may_refuse(self, message: Message) -> bool:
        """Whether a queue may have a message nacked: an unprivileged one only if it was published to that by name. When
        a channel is closed because a queue held it for too long, all that is parked in it is nacked.
        """
        powerless = frozenset() if message.by_name else self.powerless
        return self.plan.closes_held or bool(self.refusing & set(message.queues) - powerless)

    def is_publishing_to(self, client: int, queue: str) -> bool:
        """Whether a client may have published to a queue by its name and not know yet that it arrived."""
        pending = (Fate.SENT, Fate.READ, Fate.CLOSED, Fate.COMMITTING, Fate.UNDECIDED)
        return any(
            id.client == client and message.by_name and message.fate in pending and queue in message.queues
            for id, message in self.messages.items()
        )

    def committing(self, ids: list[Id]) -> None:
        """Record that a commit was written."""
        self.largest_commit = max(self.largest_commit, len(ids))
        for id in ids:
            self.messages[id].fate = Fate.COMMITTING

    def committed(self, ids: Iterable[Id], now: float) -> None:
        """Record the answer to a commit."""
        for id in ids:
            self.messages[id].fate = Fate.COMMITTED
            self.messages[id].promised_at = now

    def rolled_back(self, ids: Iterable[Id]) -> None:
        """Record publishes of a transaction that will never take effect."""
        for id in ids:
            self.messages[id].fate = Fate.ROLLED_BACK

    def undecided(self, ids: list[Id]) -> None:
        """Record a transaction whose outcome its client will not learn."""
        self.transactions.append(ids)
        for id in ids:
            self.messages[id].fate = Fate.UNDECIDED

    def died(self, role: str, index: int, now: float) -> None:
        """Record the death of a process."""
        if role == "shard":
            self.shard_deaths.append(now)
        elif role == "acceptor":
            self.acceptor_deaths[index].append(now)

    def lost_power(self, now: float, flushed_at: float) -> None:
        """Record that the machine lost power. Promises until `flushed_at` had been flushed."""
        self.shard_deaths.append(now)
        self.power_cuts.append((now, flushed_at))

    # What consumers know

    def delivered(self, at: At, redelivered: bool, now: float, consumer: str) -> None:
        """Record a delivery, and check that it may come, and in this order (docs/durability.md). A message that was on
        its way to a client that left, from a shard that died, may come late.
        """
        queue, id = at
        message = self.messages.get(id)
        assert message is not None, f"{queue} delivers {id}, which nobody published"
        buried = queue not in message.queues
        assert not buried or self.may_be_dead(at, message), f"{queue} delivers {id}, published to {message.queues}"
        refused = buried and self.refusing & set(message.queues)
        assert message.fate is not Fate.ROLLED_BACK or refused, f"{queue} delivers {id}, which was rolled back"
        place = self.places[at]
        uncertain = self.a_process_died_since(message.at)
        if not uncertain and not self.plan.outlasts(CONSUMER_TIMEOUT):
            assert not place.open, f"{queue} delivers {id} twice"
            assert not place.gone, f"{queue} delivers {id}, which was settled"
            assert redelivered or not place.delivered, f"{queue} delivers {id} again, not marked as redelivered"
        first = not place.delivered
        place.delivered += 1
        place.open += 1
        straight = not buried and not message.delayed
        if consumer and first and not redelivered and straight and self.plan.keeps_order(self.queues[queue]):
            self.comes_in_order(queue, id, consumer, uncertain)

    def may_be_dead(self, at: At, message: Message) -> bool:
        """Whether a delivery may be one of a dead message (docs/queues.md): from a queue that lets some die, or that
        had it rejected.
        """
        sources = [self.queues[name] for name in message.queues if grave(name) == at[0]]
        return any(
            queue.buries and (queue.name in self.deadly or self.places[queue.name, at[1]].rejected) for queue in sources
        )

    def comes_in_order(self, queue: str, id: Id, consumer: str, uncertain: bool) -> None:
        """Check that the first delivery of a message follows those of its predecessors to the same consumer."""
        message = self.messages[id]
        channel = consumer, id.client, message.connection
        last = self.last.get(channel)
        in_order = last is None or last.number < id.number
        to_another = any(when >= message.at for when in self.departures)
        assert in_order or (uncertain and to_another), f"{queue} delivers {id} after {last}"
        self.last[channel] = id

    def acked(self, places: Iterable[At]) -> None:
        """Record acks that were written."""
        for at in places:
            self.places[at].acked = True
            self.places[at].open -= 1

    def rejected(self, places: Iterable[At]) -> None:
        """Record rejects that were written and do not requeue."""
        for at in places:
            self.places[at].rejected = True
            self.places[at].open -= 1

    def undone(self, places: Iterable[At]) -> None:
        """Record that the transaction was refused in which these were acked."""
        for at in places:
            self.places[at].acked = False

    def gone(self, places: Iterable[At]) -> None:
        """Record acks or rejects that the acceptor has read."""
        for at in places:
            self.places[at].gone = True

    def given_back(self, places: Iterable[At]) -> None:
        """Record deliveries that were given back."""
        for at in places:
            self.places[at].open -= 1

    def departed(self, now: float) -> None:
        """Record that a client has lost or left its channel."""
        self.departures.append(now)

    def may_lose(self, queue: str) -> None:
        """Record that a queue may lose messages: a client consumes without acks, or the disk has rotted."""
        self.leaky.add(queue)

    def a_process_died_since(self, when: float) -> bool:
        """Whether a shard or an acceptor has died since then."""
        deaths = [*self.shard_deaths, *(death for deaths in self.acceptor_deaths.values() for death in deaths)]
        return any(death >= when for death in deaths)

    def has_forgotten(self) -> bool:
        """Whether a shard has died with all that it had in memory: what it had delivered counts towards no prefetch."""
        return bool(self.shard_deaths) and not self.plan.stores

    def may_be_forgotten(self, id: Id) -> bool:
        """Whether a shard may have died that had a message which it had not promised to keep: what it had delivered of
        these counts towards no prefetch (docs/durability.md).
        """
        message = self.messages[id]
        promised_at = message.promised_at if self.plan.stores and message.promised_at else inf
        return any(message.at <= death <= promised_at for death in self.shard_deaths)


def identity(body: bytes) -> Id:
    """Return the message of a body."""
    client, number, _ = body.split(b" ", 2)
    return Id(int(client), int(number))
