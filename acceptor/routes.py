"""Where a publish goes, cached by the octets that say so, until the topology changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acceptor.inlet import Gate, Inlet
from acceptor.pools import Manifold, Pool, Pools
from acceptor.pressure import Pressure, VhostGate
from acceptor.stops import StopGate
from penstock.amqp.errors import amqp_error
from penstock.replies import carrier, home_of
from router.policy_keys import SHARED
from router.records import DEFAULT_EXCHANGE
from router.topology import Queue, Topology

if TYPE_CHECKING:
    from acceptor.permissions import Access
    from acceptor.shard_link import ShardLink

# Routes kept; a producer that makes up routing keys empties the cache, not the memory.
CACHE_SIZE = 65536
# Characters that the further routing keys of a cached route have together.
CACHED_KEYS = 1024


class Target:
    """The queues of a route on one shard, and those of them that may be full."""

    __slots__ = ("inlets", "link", "queues")

    def __init__(self, link: ShardLink) -> None:
        self.link = link
        self.queues: tuple[int | str, ...] = ()
        self.inlets: tuple[Inlet, ...] = ()


class Route:
    """The targets of a publish, the exchanges on its way, and the gates of shards and queues that it must pass.

    `barriers` come before those: they have no room for anything, or for all there is. With `by_headers` each message
    has a route of its own.
    """

    __slots__ = ("barriers", "by_headers", "exchange", "exchanges", "further", "gates", "inlets", "key", "targets")

    def __init__(
        self,
        exchange: str,
        key: str,
        further: tuple[str, ...],
        by_headers: bool,
        targets: tuple[Target, ...],
        exchanges: tuple[str, ...] = (),
        barriers: tuple[StopGate | VhostGate, ...] = (),
    ) -> None:
        self.exchange = exchange
        self.exchanges = exchanges
        self.key = key
        self.further = further
        self.by_headers = by_headers
        self.targets = targets
        self.barriers = barriers
        times = Counter(inlet for target in targets for inlet in target.inlets)
        self.inlets = tuple(times)
        self.gates: tuple[Gate, ...] = (
            *(target.link for target in targets),
            *(inlet if count == 1 else Manifold(inlet, count) for inlet, count in times.items()),
        )

    def barriers_for(self, connection: str) -> list[Gate]:
        """Those that publishes of a connection must pass: a stop may be of a single one."""
        return [b for b in self.barriers if not isinstance(b, StopGate) or b.stop.connection in (None, connection)]

    def gates_for(self, connection: str) -> Sequence[Gate]:
        """All that publishes of a connection must pass."""
        return [*self.barriers_for(connection), *self.gates] if self.barriers else self.gates


class Routes:
    """The route cache of an acceptor. `inlets` holds the gate of every queue with a limit, by queue id; `stops` those
    of operators' stops, by number.
    """

    def __init__(
        self,
        topology: Topology,
        links: list[ShardLink],
        inlets: dict[int, Inlet],
        acceptors: int,
        pools: Pools,
        pressure: Pressure,
        stops: dict[int, StopGate],
    ) -> None:
        self.topology = topology
        self.pressure = pressure
        self.stops = stops
        self.pools = pools
        self.links = links
        self.inlets = inlets
        self.acceptors = acceptors
        self.cache: dict[tuple[Any, ...], Route] = {}

    def clear(self) -> None:
        self.cache.clear()

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

    def make(self, access: Access, address: bytes, further: tuple[str, ...]) -> Route:
        exchange, key = names(address)
        vhost = access.vhost
        access.check("write", "exchange", exchange)
        record = self.topology.exchange(vhost, exchange)
        if record is None:
            raise amqp_error(404, f"no exchange '{exchange}' in vhost '{vhost}'")
        if record.internal:
            raise amqp_error(403, f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
        access.check_topic("write", record, key)
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
        targets = self.targets(queues)
        if self.pools.active:
            self.put_before(targets, self.pools.of(access, passed, key, queues))
        if exchange == DEFAULT_EXCHANGE and headers is None:
            targets += self.reply_targets((key, *further))
        stops = [gate for gate in self.stops.values() if gate.concerns(access, exchange, (key, *further), queues)]
        return Route(exchange, key, further, False, targets, tuple(passed), (*stops, *self.gates_of(access.vhost)))

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
        gate = self.pressure.gates.get(vhost)
        return () if gate is None else (gate,)

    def queue(self, id: int | str) -> Queue | None:
        return self.topology.queue_by_id(id) if isinstance(id, int) else None

    def targets(self, queues: tuple[Queue, ...]) -> tuple[Target, ...]:
        targets: dict[int, Target] = {}
        for queue in queues:
            target = targets.get(queue.shard)
            if target is None:
                target = targets[queue.shard] = Target(self.links[queue.shard])
            target.queues += (queue.queue_id,)
            inlet = self.inlets.get(queue.queue_id)
            if inlet is not None:
                target.inlets += (inlet,)
        return tuple(targets.values())

    def reply_targets(self, keys: tuple[str, ...]) -> tuple[Target, ...]:
        """Where answers to reply consumers go: to shards that pass them on. One that is gone counts as well."""
        targets = []
        for key in keys:
            home = home_of(key)
            if home is not None and home.acceptor < self.acceptors:
                target = Target(self.links[carrier(key, len(self.links))])
                target.queues = (key,)
                targets.append(target)
        return tuple(targets)


def names(address: bytes) -> tuple[str, str]:
    """Exchange and routing key of two short strings."""
    split = 1 + address[0]
    return (
        address[1:split].decode("utf-8", "surrogateescape"),
        address[split + 1 :].decode("utf-8", "surrogateescape"),
    )
