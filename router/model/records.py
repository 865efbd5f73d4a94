"""The records of a topology. Each record is a value; its string is its name in reply texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from router.model.fields import Typed, typed

Arguments: TypeAlias = Mapping[str, Any]
Change: TypeAlias = list[Any]
"""One change of the topology as sent over the bus: its kind, then its fields (`Topology.apply`)."""

Kind: TypeAlias = Literal["queue", "exchange"]
"""The kinds of destination that a binding may have."""

Destination: TypeAlias = tuple[Kind, str]

DEFAULT_EXCHANGE = ""


def described(kind: str, name: str, vhost: str) -> str:
    """Return "queue 'q' in vhost 'v'"."""
    return f"{kind} '{name}' in vhost '{vhost}'"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy or operator policy (`router.model.policies`) of a vhost; `vhost` is "" for one of the node."""

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
        """Return the change that makes or replaces the policy."""
        return [
            *("policy", self.vhost, self.operator, self.name, self.pattern, self.apply_to, self.priority),
            dict(self.definition),
        ]

    def change_gone(self) -> Change:
        """Return the change that deletes the policy."""
        return ["policy_gone", self.vhost, self.operator, self.name]


@dataclass(frozen=True, slots=True)
class Stop:
    """An operator's stop: publishes that match everything it names wait; one that names nothing stops all publishes.

    `key` is a topic pattern (AMQP 0-9-1, 3.1.3.3). Times are seconds of the node's clock (`penstock.node.clock`);
    `until` is None for a stop without an end.
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
        """The text shown to clients and operators."""
        return f"stopped by {self.author}: {self.reason}" if self.reason else f"stopped by {self.author}"

    def change(self) -> Change:
        """Return the change that makes the stop."""
        return ["stop", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        """Return the change that lifts the stop."""
        return ["stop_gone", self.number]


@dataclass(frozen=True, slots=True)
class HoldOff:
    """A user refused from an address. `times` counts its hold-offs from there that are not forgotten.

    `since`, `until` and `forget_at` are seconds of the node's clock.
    """

    user: str
    host: str
    times: int
    since: float
    until: float
    forget_at: float
    reason: str

    def change(self) -> Change:
        """Return the change that makes or replaces the hold-off."""
        return ["hold_off", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        """Return the change that forgets the hold-off."""
        return ["hold_off_gone", self.user, self.host]


STOPPING, COPYING, HOMING = "stopping", "copying", "homing"
"""The phases of a move (docs/rebalancing.md): nothing more goes to the old home, which writes its copy; the new home
reads the copy; the queue has its home, old or new, and waits for all acceptors to re-attach."""


STARTING, SERVING, DRAINING, LEAVING = "starting", "serving", "draining", "leaving"
"""The states of a shard (router/authority/shards.py): it is being started; queues are placed on it; no further queue is
placed on it; it is to end for good.
"""


@dataclass(frozen=True, slots=True)
class Move:
    """A queue on its way from one shard to another. `epoch` is never reused; `…_life` is an incarnation of the shard.

    `count`, `octets` (of whole messages) and `checksum` describe the copy that the old home wrote; `stop` is a
    `shard.queue.saturation.Stop` if the queue held its producers there. `outcome` is "moved" or "rolled-back" once
    decided, with a `reason`; from then on the queue is at `home`. `since` is by the node's clock.
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
        """The shard that owns the queue: the target once it has moved, the source until then and after a rollback."""
        return self.target if self.outcome == "moved" else self.source

    def change(self) -> Change:
        """Return the change that makes or replaces the move."""
        return ["move", *(getattr(self, field) for field in self.__slots__)]

    def change_gone(self) -> Change:
        """Return the change that ends the move."""
        return ["move_gone", self.queue_id]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange (AMQP 0-9-1, 3.1.3). `policy` is the name of the policy that governs it, `maker` the user who
    declared it (as for `Binding`).
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
        """The exchange that gets the messages that this one cannot route: by its declaration, else by its policy."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else self.policy_alternate

    def change(self) -> Change:
        """Return the change that makes or replaces the exchange."""
        return [
            *("exchange", self.vhost, self.name, self.type),
            *(self.durable, self.auto_delete, self.internal, _as_dict(self.arguments)),
            *(self.policy, self.policy_alternate, self.maker),
        ]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue (AMQP 0-9-1, 3.1.1) and its place in the node.

    `queue_id` is never reused; `slot` is its place in the gauges; `owner` is the connection of an exclusive queue.
    `limits` and `features` are in the form of `QueueLimits.to_wire` and `QueueFeatures.to_wire`, with the policies
    named here applied. `maker` is the user who declared it (as for `Binding`).
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
        """Return the change that makes or replaces the queue."""
        return [
            *("queue", self.vhost, self.name, self.queue_id, self.slot, self.shard),
            *(self.durable, self.auto_delete, self.owner, _as_dict(self.arguments), self.limits, self.features),
            *(self.policy, self.operator_policy, self.maker),
        ]


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding. Two are equal if source, destination, key and arguments are; arguments compare by `typed`.

    `maker` is the user who made it; None for a binding older than the recording of makers, or made by the node itself.
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
        """Return the change that makes the binding."""
        return ["binding", *self._fields(), self.maker]

    def change_gone(self) -> Change:
        """Return the change that removes the binding."""
        return ["binding_gone", *self._fields()]

    def _fields(self) -> list[Any]:
        return [self.vhost, self.source, self.kind, self.destination, self.key, _as_dict(self.arguments)]


def _as_dict(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments as the dict that msgpack needs: a record and its changes share it, as none is modified."""
    return arguments if isinstance(arguments, dict) else dict(arguments)
