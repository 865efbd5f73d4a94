"""What a topology consists of. Each record is a value; as a string it is what reply texts call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from router.model.fields import Typed, typed

Arguments: TypeAlias = Mapping[str, Any]
Change: TypeAlias = list[Any]
"""One change of the topology as it goes over the bus: its kind, then what it is about (`Topology.apply`)."""

Kind: TypeAlias = Literal["queue", "exchange"]
"""What a binding leads to."""

Destination: TypeAlias = tuple[Kind, str]

DEFAULT_EXCHANGE = ""


def described(kind: str, name: str, vhost: str) -> str:
    """ "queue 'q' in vhost 'v'"."""
    return f"{kind} '{name}' in vhost '{vhost}'"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy, or an operator policy, of one vhost, or of the node: then the vhost is "" (see
    `router.model.policies`).
    """

    vhost: str
    operator: bool
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        sort = "operator policy" if self.operator else "policy"
        return described(sort, self.name, self.vhost) if self.vhost else f"{sort} '{self.name}' of the node"

    def change(self) -> Change:
        return [
            *("policy", self.vhost, self.operator, self.name, self.pattern, self.apply_to, self.priority),
            dict(self.definition),
        ]

    def change_gone(self) -> Change:
        return ["policy_gone", self.vhost, self.operator, self.name]


@dataclass(frozen=True, slots=True)
class Stop:
    """An operator's stop: publishes wait that meet all of what it names; with nothing named, all publishes do.

    `key` is a pattern as of a topic exchange's bindings (AMQP 0-9-1, 3.1.3.3). Times are seconds of the node's clock
    (`penstock.node.clock`); `until` None stands for ever.
    """

    number: int
    vhost: str | None
    exchange: str | None
    key: str | None
    queue: str | None
    user: str | None
    connection: str | None
    author: str
    reason: str
    since: float
    until: float | None

    def __str__(self) -> str:
        """What clients and operators are told."""
        return f"stopped by {self.author}: {self.reason}" if self.reason else f"stopped by {self.author}"

    def change(self) -> Change:
        return ["stop", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        return ["stop_gone", self.number]


@dataclass(frozen=True, slots=True)
class HoldOff:
    """A user who is refused from an address, for the time number `times`. Times are seconds of the node's clock."""

    user: str
    host: str
    times: int
    since: float
    until: float
    forget_at: float
    reason: str

    def change(self) -> Change:
        return ["hold_off", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        return ["hold_off_gone", self.user, self.host]


STOPPING, COPYING, HOMING = "stopping", "copying", "homing"
"""Where a move is (docs/rebalancing.md): nothing more goes to the old home; its copy is read at the new one; the queue
has its home, old or new, and waits for those who had something of it in hand."""


STARTING, SERVING, DRAINING, LEAVING = "starting", "serving", "draining", "leaving"
"""Where a shard is (router/authority/shards.py): it is to be started; queues are placed there; none is placed there any
more; it is to end for good.
"""


@dataclass(frozen=True, slots=True)
class Move:
    """A queue on its way from one shard to another. `epoch` is never used twice; the lives are incarnations.

    `count` messages of so many `octets`, whole, with that `checksum` were written by the old home; `stop` is a
    `shard.queue.saturation.Stop` if it held its producers there. Once it has an
    `outcome`, "moved" or "rolled-back", with a `reason`, the queue is at `home`. `since` is by the node's clock.
    """

    queue_id: int
    epoch: int
    source: int
    target: int
    phase: str
    source_life: int
    target_life: int
    plan: str | None
    since: float
    count: int = 0
    octets: int = 0
    checksum: int = 0
    outcome: str = ""
    reason: str = ""
    stop: list[int] = field(default_factory=list, hash=False)

    @property
    def home(self) -> int:
        """The shard that the queue is at, or will be again."""
        return self.target if self.outcome == "moved" else self.source

    def change(self) -> Change:
        return ["move", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        return ["move_gone", self.queue_id]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange (AMQP 0-9-1, 3.1.3). `policy` is the name of the one that governs it, `maker` the user who declared
    it (as of a binding).
    """

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments = field(hash=False)
    policy: str | None = None
    policy_alternate: str | None = None
    maker: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return described("exchange", self.name, self.vhost)

    @property
    def alternate(self) -> str | None:
        """The exchange that gets what this one does not route: as its declaration says, or else the policy."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else self.policy_alternate

    def change(self) -> Change:
        return [
            *("exchange", self.vhost, self.name, self.type),
            *(self.durable, self.auto_delete, self.internal, _as_dict(self.arguments)),
            *(self.policy, self.policy_alternate, self.maker),
        ]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue (AMQP 0-9-1, 3.1.1) and its place in the node.

    `queue_id` is never used twice; `slot` is its place in the gauges; `owner` is the connection of an exclusive queue;
    `limits` and `features` are what `QueueLimits.to_wire` and `QueueFeatures.to_wire` say, the policies of those names
    taken in. `maker` is the user who declared it (as of a binding).
    """

    vhost: str
    name: str
    queue_id: int
    slot: int
    shard: int
    durable: bool
    auto_delete: bool
    owner: str | None
    arguments: Arguments = field(hash=False)
    limits: list[Any] = field(hash=False)
    features: list[Any] = field(hash=False)
    policy: str | None = None
    operator_policy: str | None = None
    maker: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return described("queue", self.name, self.vhost)

    def change(self) -> Change:
        return [
            *("queue", self.vhost, self.name, self.queue_id, self.slot, self.shard),
            *(self.durable, self.auto_delete, self.owner, _as_dict(self.arguments), self.limits, self.features),
            *(self.policy, self.operator_policy, self.maker),
        ]


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding. Two are the same if source, destination, key and arguments are; `typed` is how arguments compare.

    `maker` is the user who made it; None for one that was made before that was noted, or by the node itself.
    """

    vhost: str
    source: str
    kind: Kind
    destination: str
    key: str
    arguments: Arguments = field(compare=False)
    maker: str | None = field(default=None, compare=False)
    typed: Typed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "typed", typed(self.arguments))

    def __str__(self) -> str:
        return f"binding of {self.kind} '{self.destination}' to {described('exchange', self.source, self.vhost)}"

    @property
    def target(self) -> Destination:
        return self.kind, self.destination

    def change(self) -> Change:
        return ["binding", *self._fields(), self.maker]

    def change_gone(self) -> Change:
        return ["binding_gone", *self._fields()]

    def _fields(self) -> list[Any]:
        return [self.vhost, self.source, self.kind, self.destination, self.key, _as_dict(self.arguments)]


def _as_dict(arguments: Arguments) -> dict[str, Any]:
    """As msgpack takes them. Nobody changes them: a record and the changes that make it have the same ones."""
    return arguments if isinstance(arguments, dict) else dict(arguments)
