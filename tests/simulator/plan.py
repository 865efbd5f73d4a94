"""A plan: the node, its queues, its clients, the operators' actions, the faults and the weather."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from penstock.limits.ladder import CLOSE_CHANNEL, CLOSE_CONNECTION, REJECT
from penstock.settings.sections import AmqpSettings
from tests.simulator.bounds import FAR, Bounds
from tests.simulator.policies import LANE, POLICIES, Definition

CONSUMER_TIMEOUT, TRANSACTION_TIMEOUT = AmqpSettings().consumer_timeout, AmqpSettings().transaction_timeout
SHORT_SECONDS = 0.1
"""The duration of half of the plays, and the longest that a fault lasts in them."""
FANOUT = "fan"
HASH = "hash"
"""The exchanges to which some of the queues are bound: with the second a message goes to one of them."""
DELAYED = "late"
"""The delayed message exchange to which the same queues are bound, in plays that have one."""
DEAD = "dead"
"""The queue to which others send their dead messages; nobody publishes to it."""
TEMPORARY = ("t1", "t2", "t3")
"""Queues that clients declare and delete."""


class Habit(StrEnum):
    """What a client does."""

    CONFIRMING = "confirming producer"
    PLAIN = "plain producer"
    TRANSACTING = "transacting producer"
    CONSUMING = "consumer"
    GETTING = "getter"
    LEASING = "lessee"
    RELAYING = "relay"
    RINGING = "relay of a ring"
    TRANSACTING_RELAY = "transacting relay"
    DECLARING = "declaring client"
    HOSTILE = "hostile client"
    ATTACKING = "attacker"
    DRAINING = "drainer"
    """Of the one client that empties all queues at the end."""


class Mishap(StrEnum):
    """What goes wrong."""

    KILL = "is killed"
    HANG = "hangs"
    FULL = "is full"
    UNFLUSHABLE = "cannot be flushed"
    LIES = "says that it has flushed what it has not"
    ROT = "rots"
    MISDIRECT = "writes to the wrong place"
    LOSE_WRITE = "loses a write"
    """Of disks, all six."""
    POWER = "loses power"
    """Of the machine, with all processes."""
    UNFORKABLE = "can start no process"
    """Of the supervisor, which may hang too."""
    SET_CLOCK = "has its clock set"
    CUT = "is cut off"
    """Of a client: no byte passes in either direction, and neither side learns of it."""


class Deed(StrEnum):
    """What an operator does."""

    POLICY = "changes the policy of"
    LIMIT = "limits together with others"
    OVERTAKE = "lets publishes overtake those to"
    PERMIT = "permits or forbids Mallory to write to all exchanges, beside"
    STOP = "stops publishes to"
    LIFT = "lifts a stop of"
    MOVE = "moves"
    ABORT = "aborts the move of"
    ADD_SHARD = "adds shard"
    DRAIN = "drains shard"
    UNDRAIN = "undrains shard"
    REMOVE = "removes shard"
    EXPEL = "deletes Eve, or adds her again, beside"
    RESTART = "replaces all acceptors, beside"


class QueuePlan(NamedTuple):
    """A queue, the shard that it begins on, whether it is bound to the exchanges, and whether by a user who may
    not write to that.
    """

    name: str
    shard: int
    arguments: dict[str, Any]
    bound: bool
    unprivileged: bool = False

    @property
    def buries(self) -> bool:
        """Whether its dead messages go to another queue."""
        return "x-dead-letter-exchange" in self.arguments


class ClientPlan(NamedTuple):
    """A client: its number, which names its random numbers, what it does, when it arrives, whether it obeys
    Channel.Flow, the seconds between heartbeats, 0 for none, the number of the client whose connection it shares,
    0 if it has its own, and the queues that it consumes from and publishes to, if it is to choose no others.
    """

    number: int
    habit: Habit
    acceptor: int
    arrives: float
    obeys: bool
    heartbeat: int = 0
    guest_of: int = 0
    source: str | None = None
    target: str | None = None


class Fault(NamedTuple):
    """Something that happens to a process, and for how many seconds it lasts. The number of an acceptor is that of its
    place; with that of all places added, it is that of the successor beside it.
    """

    at: float
    mishap: Mishap
    role: str
    number: int
    seconds: float


class Operation(NamedTuple):
    """An operator's action on a queue; `choice` selects among what may be set, or the shard to move to."""

    at: float
    deed: Deed
    queue: str
    choice: int


class Storm(NamedTuple):
    """A time during which everything takes `slower` times as long, and varies as much."""

    begins: float
    ends: float
    slower: float


class Lull(NamedTuple):
    """A time in which no client does anything of its own accord."""

    begins: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """All that a seed draws before the play begins. Times are in seconds from its beginning; `seconds` of the play are
    beside its lull.
    """

    seed: int
    acceptors: int
    shards: int
    stores: bool
    queues: tuple[QueuePlan, ...]
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]
    operations: tuple[Operation, ...]
    storms: tuple[Storm, ...]
    seconds: float
    lull: Lull | None = None
    bounds: Bounds = field(default_factory=Bounds)
    spare: int = 0
    """How many shards may be added."""
    share: int | None = None
    """How many of an exchange's queues have to lag before producers are held, in percent; None: the default."""
    delays: bool = False
    """Whether there is a delayed message exchange."""

    @property
    def reads_topology(self) -> bool:
        """Whether a router may read what the one before it has stored."""
        return any(each.role in ("router", "router disk", "machine") for each in self.faults)

    @property
    def is_short(self) -> bool:
        """Whether it is one of the shortest plays."""
        return self.duration == SHORT_SECONDS

    @property
    def duration(self) -> float:
        """The seconds of the play, with its lull."""
        return self.seconds if self.lull is None else self.seconds + self.lull.seconds

    def policies(self, queue: str) -> list[Definition]:
        """Return the policies that a queue may get."""
        deeds = [each for each in self.operations if each.deed is Deed.POLICY and each.queue == queue]
        return [POLICIES[each.choice % len(POLICIES)] or {} for each in deeds]

    def refuses(self, queue: QueuePlan) -> bool:
        """Whether a queue nacks, at some time, what it has no room for."""
        own = queue.arguments.get("x-overflow")
        refuses = any(
            "reject-publish" in (own or policy.get("overflow", "")) or policy.get("deadlock") == "nack"
            for policy in [{}, *self.policies(queue.name)]
        )
        return refuses or self.escalates(queue, REJECT, CLOSE_CHANNEL, CLOSE_CONNECTION)

    def ladders(self, queue: QueuePlan) -> list[str]:
        """Return the ladders that a queue may have."""
        ladders = [queue.arguments.get("x-hold"), *(policy.get("hold") for policy in self.policies(queue.name))]
        return [ladder for ladder in ladders if ladder is not None]

    def escalates(self, queue: QueuePlan, *rungs: str) -> bool:
        """Whether a channel that a queue holds may reach one of some rungs."""
        return any(rung in ladder for ladder in self.ladders(queue) for rung in rungs)

    def reaches(self, *rungs: str) -> bool:
        """Whether a channel that any queue holds may reach one of some rungs."""
        return any(self.escalates(queue, *rungs) for queue in self.queues)

    @cached_property
    def closes_held(self) -> bool:
        """Whether channels or connections may be closed because a queue holds them for too long."""
        return self.reaches(CLOSE_CHANNEL, CLOSE_CONNECTION)

    def is_powerless(self, queue: QueuePlan) -> bool:
        """Whether a queue never gets power over publishers that do not name it."""
        permitted = any(each.deed is Deed.PERMIT for each in self.operations)
        granted = any("overflow" in policy for policy in self.policies(queue.name))
        return queue.unprivileged and not permitted and not granted

    def drops(self, queue: QueuePlan) -> bool:
        """Whether messages may die in a queue that nobody rejects, or as soon as they come."""
        mortal = {"x-message-ttl", "x-delivery-limit", "x-max-length"} & queue.arguments.keys()
        limited = any("max-length" in policy for policy in self.policies(queue.name))
        has_no_right = queue.unprivileged or not self.stores  # queues are as durable as their shards
        return bool(mortal) or limited or (has_no_right and self.bounds.unprivileged < FAR)

    def bounds_depth(self, queue: QueuePlan) -> bool:
        """Whether a queue is held to its first marks: it may not lag behind others, and no messages come that were
        dead or delayed.
        """
        lags = queue.bound and (self.share != 0 or queue.unprivileged or self.delays)
        return not lags and queue.name != DEAD

    def keeps_order(self, queue: QueuePlan) -> bool:
        """Whether messages leave a queue in the order in which they came. What overtakes others on its way to a queue
        with a lane does so in all queues that it goes to.
        """
        with_it = [each for each in self.queues if each is queue or (each.bound and queue.bound)]
        overtaken = "x-max-priority" in queue.arguments or any(LANE in self.policies(each.name) for each in with_it)
        return not overtaken and queue.name != DEAD

    @property
    def expels(self) -> bool:
        """Whether Eve may be deleted."""
        return any(each.deed is Deed.EXPEL for each in self.operations)

    @property
    def renews(self) -> bool:
        """Whether acceptors may be replaced while they run."""
        return any(each.deed is Deed.RESTART for each in self.operations)

    @property
    def ring(self) -> set[str]:
        """The queues of the ring that relays form, if there is one."""
        return {each.source for each in self.clients if each.source is not None}

    def sources(self, client: ClientPlan) -> list[str]:
        """Return the queues from which a client may consume: of those in the ring its own, and the drainer all."""
        if client.source is not None:
            return [client.source]
        closed = set() if client.habit is Habit.DRAINING else self.ring
        return [queue.name for queue in self.queues if queue.name not in closed]

    def outlasts(self, deadline: float) -> bool:
        """Whether so many seconds may pass in its lull."""
        return self.lull is not None and self.lull.seconds >= deadline
