"""The route of a publish: its targets, and the gates on the way there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acceptor.gates.fan import Fan
from acceptor.gates.gate import Gate
from acceptor.gates.move_gate import MoveGate
from acceptor.gates.pools import MultiplyingGate
from acceptor.gates.pressure import VhostGate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import RateGate
from acceptor.gates.stops import StopGate
from acceptor.routing.counting import Meter
from router.model.grants import NOBODY
from router.model.matching import PropertyIndex

if TYPE_CHECKING:
    from acceptor.links.shard_link import ShardLink

Barrier = StopGate | VhostGate | MoveGate


class Target:
    """The queues of a route on one shard, their slots in the gauges, and the queue gates of those that may be full.

    Or a reply consumer, whose answers the shard passes on and does not keep (`keeps`).
    """

    __slots__ = ("keeps", "link", "queue_gates", "queues", "slots")

    def __init__(self, link: ShardLink, keeps: bool = True) -> None:
        self.link = link
        self.keeps = keeps
        self.queues: tuple[int | str, ...] = ()
        self.slots: tuple[int, ...] = ()
        self.queue_gates: tuple[QueueGate, ...] = ()


class Route:
    """The targets of a publish, the exchanges on its way, and the gates of shards and queues that it must pass.

    `barriers` come before those gates: they have no room, or any amount of it. `rates` are the gates of limited rates;
    `meters`, the rates among them, count the messages sent; `lanes` are the priority lanes of its queues. Of several
    queues with marks, those that lag (`fan`) hold no producer. `returning` are the queues that return mandatory
    messages for which they have no room; `powerless` queues neither hold its publishes nor refuse them
    (router/model/grants.py), and have no gates on it. Confirms wait for the shards of `keepers` targets. The route
    `expires` if one of the queues has a TTL. If exchanges on the way look at properties of messages, `by_properties`
    has their indexes, `reads` these properties, and each message has a route of its own.
    """

    __slots__ = (
        "barriers",
        "by_properties",
        "exchange",
        "exchanges",
        "expires",
        "fan",
        "further",
        "gates",
        "keepers",
        "key",
        "lanes",
        "meters",
        "powerless",
        "queue_gates",
        "rates",
        "reads",
        "returning",
        "targets",
    )

    def __init__(
        self,
        exchange: str,
        key: str,
        further: tuple[str, ...],
        by_properties: Sequence[PropertyIndex],
        targets: tuple[Target, ...],
        exchanges: tuple[str, ...] = (),
        barriers: tuple[Barrier, ...] = (),
        rates: tuple[RateGate, ...] = (),
        fan: Fan | None = None,
        returning: frozenset[int] = frozenset(),
        counter: Meter | None = None,
        powerless: frozenset[int] = NOBODY,
        expires: bool = False,
    ) -> None:
        self.expires = expires
        self.returning = returning
        self.powerless = powerless
        self.exchange = exchange
        self.exchanges = exchanges
        self.key = key
        self.further = further
        self.by_properties = by_properties
        self.reads = frozenset(name for index in by_properties for name in index.reads)
        self.targets = targets
        self.keepers = sum(target.keeps for target in targets)
        self.barriers = barriers
        self.rates = rates
        self.meters: tuple[RateGate | Meter, ...] = rates if counter is None else (*rates, counter)
        self.fan = fan
        times = Counter(queue_gate for target in targets for queue_gate in target.queue_gates)
        self.queue_gates = tuple(times)
        self.lanes = tuple(queue_gate.lane for queue_gate in self.queue_gates if queue_gate.lane is not None)
        self.gates: tuple[Gate, ...] = (
            *rates,
            *(target.link for target in targets),
            *(queue_gate if count == 1 else MultiplyingGate(queue_gate, count) for queue_gate, count in times.items()),
        )

    def address(self) -> bytes:
        """Return exchange and routing key as two short strings."""
        data = (name.encode("utf-8", "surrogateescape") for name in (self.exchange, self.key))
        return b"".join(bytes([len(name)]) + name for name in data)

    def barriers_for(self, connection: str) -> list[Gate]:
        """Return the barriers that publishes of a connection must pass: a stop may concern a single connection."""
        return [b for b in self.barriers if not isinstance(b, StopGate) or b.stop.connection in (None, connection)]

    def gates_for(self, connection: str) -> Sequence[Gate]:
        """Return all gates that publishes of a connection must pass now."""
        if self.fan is not None:
            left = self.fan.leavers()
            return [*self.barriers_for(connection), *(gate for gate in self.gates if gate not in left)]
        return [*self.barriers_for(connection), *self.gates] if self.barriers else self.gates
