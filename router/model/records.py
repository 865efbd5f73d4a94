"""The records of a topology (`router.model.record_kind`), except those of users and limits. Each record is a value; its
string is its name in reply texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from router.model.fields import Typed, typed
from router.model.record_kind import Record, of_kind

Arguments: TypeAlias = Mapping[str, Any]

Kind: TypeAlias = Literal["queue", "exchange"]
"""The kinds of destination that a binding may have."""

Destination: TypeAlias = tuple[Kind, str]

DEFAULT_EXCHANGE = ""

DELAYED_MESSAGE = "x-delayed-message"
"""The type of exchanges that route messages after a delay (router/model/delaying.py)."""
DELAYED_TYPE = "x-delayed-type"
"""The argument of such an exchange: the type by whose rules it routes."""


def described(kind: str, name: str, vhost: str) -> str:
    """Return "queue 'q' in vhost 'v'"."""
    return f"{kind} '{name}' in vhost '{vhost}'"


@of_kind("vhost", "vhosts", key=1, fixed=True)
@dataclass(frozen=True, slots=True)
class Vhost(Record):
    """A virtual host (AMQP 0-9-1, 2.1.2). Nothing is left in it when it is removed."""

    name: str


@of_kind("vhost_metadata", "vhost_metadata", key=1, packed=("tags",))
@dataclass(frozen=True, slots=True)
class VhostMetadata(Record):
    """The description of a vhost, and its tags, which mean something to people only."""

    vhost: str
    description: str
    tags: list[str] = field(hash=False)


@of_kind("policy", "policies", key=3, flags=("operator",), packed=("definition",))
@dataclass(frozen=True, slots=True)
class Policy(Record):
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


@of_kind("stop", "stops", key=1, fixed=True)
@dataclass(frozen=True, slots=True)
class Stop(Record):
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


@of_kind("hold_off", "hold_offs", key=2)
@dataclass(frozen=True, slots=True)
class HoldOff(Record):
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


PRECOPYING, STOPPING, COPYING, HOMING = "precopying", "stopping", "copying", "homing"
"""The phases of a move (docs/rebalancing.md): the queue is open, and most of it is copied; nothing more goes to the old
home, which writes the rest; the new home reads the rest; the queue has its home, old or new, and waits for all
acceptors to re-attach."""


STARTING, SERVING, DRAINING, LEAVING = "starting", "serving", "draining", "leaving"
"""The states of a shard (router/authority/shards.py): it is being started; queues are placed on it; no further queue is
placed on it; it is to end for good.
"""


@of_kind("shard", "shards", key=1)
@dataclass(frozen=True, slots=True)
class Shard(Record):
    """A shard, and its state. Only after a command has changed the shards are they stored."""

    number: int
    state: str


@of_kind("placement", "placements", key=2, void=(None,))
@dataclass(frozen=True, slots=True)
class Placement(Record):
    """The shard on which a queue of that name is placed when it is made; None: as the hash says."""

    vhost: str
    queue: str
    shard: int | None


@of_kind("move", "moves", key=1, packed=("stop",))
@dataclass(frozen=True, slots=True)
class Move(Record):
    """A queue on its way from one shard to another, of these incarnations. `epoch` is never reused.

    `count`, `size` (bytes of whole messages) and `checksum` describe the copy that the old home wrote; `stop` is a
    `shard.queue.saturation.Stop` if the queue held its producers there. `outcome` is "moved" or "rolled-back" once
    decided, with a `reason`; from then on the queue is at `home`. `since` is when the queue was stopped, while it is
    PRECOPYING when the move began, by the node's clock.
    """

    queue_id: int
    epoch: int
    source: int
    target: int
    phase: str
    source_incarnation: int
    target_incarnation: int
    plan: str | None
    since: float
    count: int = 0
    size: int = 0
    checksum: int = 0
    outcome: str = ""
    reason: str = ""
    stop: list[int] = field(default_factory=list, hash=False)

    @property
    def home(self) -> int:
        """The shard that owns the queue: the target once it has moved, the source until then and after a rollback."""
        return self.target if self.outcome == "moved" else self.source


@of_kind("exchange", "exchanges", key=2, flags=("durable", "auto_delete", "internal"), packed=("arguments",))
@dataclass(frozen=True, slots=True)
class Exchange(Record):
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
    def routing_type(self) -> str:
        """The type by whose rules it routes messages."""
        return str(self.arguments[DELAYED_TYPE]) if self.type == DELAYED_MESSAGE else self.type

    @property
    def alternate(self) -> str | None:
        """The exchange that gets the messages that this one cannot route: by its declaration, else by its policy."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else self.policy_alternate


@of_kind(
    "queue", "queues", key=3, order="queue_id",
    flags=("durable", "auto_delete"), packed=("arguments", "limits", "features"),
)  # fmt: skip
@dataclass(frozen=True, slots=True)
class Queue(Record):
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


@of_kind("binding", "bindings", key=6, packed=("arguments",), fixed=True, durable=True)
@dataclass(frozen=True, slots=True)
class Binding(Record):
    """A binding. Two are equal if source, destination, key and arguments are; arguments compare by `typed`.

    It is removed before its exchange or destination. The binding of every queue to the default exchange is implied, and
    no record. `maker` is the user who made it; None for a binding older than the recording of makers, or made by the
    node itself.
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
