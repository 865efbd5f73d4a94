"""Where a publish goes, cached by the octets that say so, until the topology changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from acceptor.counting import Counting, Meter
from acceptor.fan import Fan, fan_of
from acceptor.inlet import Gate, Inlet
from acceptor.move_gate import MoveGate
from acceptor.pools import Manifold, Pool
from acceptor.pressure import VhostGate
from acceptor.rates import RateGate
from acceptor.replies import carriers
from acceptor.stops import StopGate
from penstock import bus
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.methods import short_string
from penstock.features import message_ttl_on_wire
from penstock.replies import carrier, home_of
from penstock.watermarks import overflow_on_wire
from router.grants import NOBODY, Grants
from router.policy_keys import SHARED
from router.records import DEFAULT_EXCHANGE
from router.topology import Queue, Topology

if TYPE_CHECKING:
    from acceptor.confirms import Span
    from acceptor.gates import Gates
    from acceptor.moving import Moves
    from acceptor.permissions import Access
    from acceptor.shard_link import ShardLink

# Routes kept; a producer that makes up routing keys empties the cache, not the memory.
CACHE_SIZE = 65536
# Characters that the further routing keys of a cached route have together.
CACHED_KEYS = 1024


Barrier = StopGate | VhostGate | MoveGate


class Target:
    """The queues of a route on one shard, their slots in the gauges, and those of them that may be full."""

    __slots__ = ("inlets", "link", "queues", "slots")

    def __init__(self, link: ShardLink) -> None:
        self.link = link
        self.queues: tuple[int | str, ...] = ()
        self.slots: tuple[int, ...] = ()
        self.inlets: tuple[Inlet, ...] = ()


class Route:
    """The targets of a publish, the exchanges on its way, and the gates of shards and queues that it must pass.

    `barriers` come before those: they have no room for anything, or for all there is. `rates` are the gates of limited
    rates; `meters`, these among them, are told what has gone; `lanes` the priority lanes of its queues. Of several
    queues with marks those that are left behind (`fan`) hold nobody. `returning` are the queues that give back what is
    mandatory and finds no room; the `powerless` neither hold its publishes nor refuse them (router/grants.py), and have
    no gates on it. It `expires` if one of the queues has a TTL. With `by_headers` each message has a route of its own.
    """

    __slots__ = (
        "barriers",
        "by_headers",
        "exchange",
        "exchanges",
        "expires",
        "fan",
        "further",
        "gates",
        "inlets",
        "key",
        "lanes",
        "meters",
        "powerless",
        "rates",
        "returning",
        "targets",
    )

    def __init__(
        self,
        exchange: str,
        key: str,
        further: tuple[str, ...],
        by_headers: bool,
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
        self.by_headers = by_headers
        self.targets = targets
        self.barriers = barriers
        self.rates = rates
        self.meters: tuple[RateGate | Meter, ...] = rates if counter is None else (*rates, counter)
        self.fan = fan
        times = Counter(inlet for target in targets for inlet in target.inlets)
        self.inlets = tuple(times)
        self.lanes = tuple(inlet.lane for inlet in self.inlets if inlet.lane is not None)
        self.gates: tuple[Gate, ...] = (
            *rates,
            *(target.link for target in targets),
            *(inlet if count == 1 else Manifold(inlet, count) for inlet, count in times.items()),
        )

    def address(self) -> bytes:
        """Exchange and routing key as two short strings."""
        octets = (name.encode("utf-8", "surrogateescape") for name in (self.exchange, self.key))
        return b"".join(bytes([len(name)]) + name for name in octets)

    def barriers_for(self, connection: str) -> list[Gate]:
        """Those that publishes of a connection must pass: a stop may be of a single one."""
        return [b for b in self.barriers if not isinstance(b, StopGate) or b.stop.connection in (None, connection)]

    def gates_for(self, connection: str) -> Sequence[Gate]:
        """All that publishes of a connection must pass now."""
        if self.fan is not None:
            left = self.fan.leavers()
            return [*self.barriers_for(connection), *(gate for gate in self.gates if gate not in left)]
        return [*self.barriers_for(connection), *self.gates] if self.barriers else self.gates


class Routes:
    """The route cache of an acceptor. A route has the gates that were there when it was made."""

    def __init__(self, topology: Topology, links: list[ShardLink], acceptors: int, gates: Gates, moves: Moves) -> None:
        self.topology = topology
        self.links = links
        self.acceptors = acceptors
        self.gates = gates
        self.moves = moves
        self.grants = Grants(topology)
        self.cache: dict[tuple[Any, ...], Route] = {}
        self.counting = Counting()

    def clear(self) -> None:
        self.cache.clear()

    def count(self, now: float) -> dict[str, Any]:
        """What has been published while it is counted (`Counting.told`), which begins now if it has not."""
        if self.counting.ask(now):
            self.clear()
        return self.counting.told(now)

    def look_at_counting(self, now: float) -> None:
        """Once a second: nobody may ask any more."""
        if self.counting.is_over(now):
            self.clear()

    def find(self, access: Access, address: bytes, further: tuple[str, ...] = ()) -> Route:
        """The route of an exchange and routing key (two short strings), and of further routing keys.

        AMQPError if there is no such exchange, or the user may not publish to it.
        """
        where = (access, address, further) if further else (access, address)
        route = self.cache.get(where)
        if route is None:
            route = self.make(access, address, further)
            if sum(map(len, further)) <= CACHED_KEYS:
                if len(self.cache) >= CACHE_SIZE:
                    self.cache.clear()
                self.cache[where] = route
        return route

    def waits(self, inlet: Inlet, span: Span) -> bool:
        """Whether publishes that go the way of a span wait for a queue now."""
        return span.route is None or self.passes(inlet, span.session.access, span.route)

    def passes(self, inlet: Inlet, access: Access, before: Route) -> bool:
        """Whether what is published now where that went before has to pass the gate of a queue."""
        try:
            route = self.find(access, before.address(), before.further)
        except AMQPError:
            return False
        if route.by_headers:
            return True  # the headers are gone
        return inlet in route.inlets and (route.fan is None or inlet not in route.fan.leavers())

    def make(self, access: Access, address: bytes, further: tuple[str, ...]) -> Route:
        exchange, key = names(address)
        vhost = access.vhost
        access.check("write", "exchange", exchange)
        record = self.topology.exchange(vhost, exchange)
        if record is None:
            raise amqp_error(404, f"no exchange '{exchange}' in vhost '{vhost}'")
        if record.internal:
            raise amqp_error(403, f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
        for each in (key, *further):
            access.check_topic("write", record, each)
        if self.topology.depends_on_headers(vhost, exchange):
            return Route(exchange, key, further, True, ())
        return self.route(access, exchange, key, None, further)

    def by_headers(self, access: Access, route: Route, headers: dict[str, object]) -> Route:
        """The route of one message that is routed by its headers too."""
        return self.route(access, route.exchange, route.key, headers, route.further)

    def route(
        self, access: Access, exchange: str, key: str, headers: dict[str, object] | None, further: tuple[str, ...]
    ) -> Route:
        passed: dict[str, None] = {}
        queues = self.topology.route(access.vhost, exchange, key, headers, further, passed)
        powerless = self.grants.powerless(access.vhost, exchange, (key, *further), headers, passed, queues)
        heeded = tuple(queue for queue in queues if queue.queue_id not in powerless) if powerless else queues
        targets = self.targets(queues, powerless)
        if self.gates.pools.active:
            self.put_before(targets, self.gates.pools.of(access, passed, key, heeded))
        if exchange == DEFAULT_EXCHANGE and headers is None:
            targets += self.reply_targets((key, *further))
        stops = [gate for gate in self.gates.stops.values() if gate.concerns(access, exchange, (key, *further), queues)]
        rates = self.gates.rates.of(access, passed, key, heeded)
        moves = self.moves.gates_of(queues) if self.moves.away else ()
        barriers: tuple[Barrier, ...] = (*stops, *self.gates_of(access.vhost), *moves)
        if not targets:
            rates = ()
        counter = None
        if self.counting.began is not None:
            ids = tuple(queue.queue_id for queue in queues)
            counter = self.counting.meter((tuple(passed), key, ids, tuple(sorted(powerless))))
        fan = self.fan_of(targets, access.vhost, passed)
        returning = frozenset(queue.queue_id for queue in heeded if overflow_on_wire(queue.limits) == "reject")
        expires = any(message_ttl_on_wire(queue.features) is not None for queue in queues)
        return Route(exchange, key, further, False, targets, tuple(passed), barriers, rates, fan, returning, counter,
                     powerless, expires)  # fmt: skip

    def fan_of(self, targets: tuple[Target, ...], vhost: str, exchanges: Iterable[str]) -> Fan | None:
        inlets = [inlet for target in targets for inlet in target.inlets if not isinstance(inlet, Pool)]
        return fan_of(inlets, self.topology, vhost, exchanges, self.tell_left)

    def tell_left(self, inlet: Inlet) -> None:
        """Its shard hears that it is left behind, before what it gets for that reason."""
        queue = self.queue(inlet.id)
        if queue is not None:
            self.links[queue.shard].tell(bus.LEFT, inlet.id)

    def put_before(self, targets: tuple[Target, ...], pools: list[Pool]) -> None:
        """Put pools before targets: each as often as messages will count in it, once for each of its queues."""
        for pool in pools:
            pool.find_members()
        for target in targets:
            slots = [queue.slot for id in target.queues if (queue := self.queue(id)) is not None]
            for pool in pools:
                times = 1 if pool.limit.shared != SHARED[0] else sum(slot in pool.members for slot in slots)
                target.inlets += (pool,) * max(times, 1)

    def gates_of(self, vhost: str) -> tuple[VhostGate, ...]:
        """The gate of a vhost that is stopped ahead of others."""
        gate = self.gates.pressure.gates.get(vhost)
        return () if gate is None else (gate,)

    def queue(self, id: int | str) -> Queue | None:
        return self.topology.queue_by_id(id) if isinstance(id, int) else None

    def targets(self, queues: tuple[Queue, ...], powerless: frozenset[int] = NOBODY) -> tuple[Target, ...]:
        targets: dict[int, Target] = {}
        for queue in queues:
            target = targets.get(queue.shard)
            if target is None:
                target = targets[queue.shard] = Target(self.links[queue.shard])
            target.queues += (queue.queue_id,)
            target.slots += (queue.slot,)
            inlet = self.gates.inlets.get(queue.queue_id)
            if inlet is not None and queue.queue_id not in powerless:
                target.inlets += (inlet,)
        return tuple(targets.values())

    def reply_targets(self, keys: tuple[str, ...]) -> tuple[Target, ...]:
        """Where answers to reply consumers go: to shards that pass them on. One that is gone counts as well."""
        targets = []
        for key in keys:
            home = home_of(key)
            if home is not None and home.acceptor < self.acceptors:
                target = Target(self.links[carrier(key, carriers(self.topology))])
                target.queues = (key,)
                targets.append(target)
        return tuple(targets)


def names(address: bytes) -> tuple[str, str]:
    """Exchange and routing key of two short strings. AMQPError (501) unless they are UTF-8."""
    split = 1 + address[0]
    return short_string(address[1:split]), short_string(address[split + 1 :])
