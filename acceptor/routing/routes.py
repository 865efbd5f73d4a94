"""Routes of publishes, cached by exchange and routing key as sent, until the topology changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from acceptor.gates.fan import Fan, fan_of
from acceptor.gates.move_gate import MoveGate
from acceptor.gates.pools import Pool
from acceptor.gates.pressure import VhostGate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rights import Undecided
from acceptor.routing.carriers import carriers
from acceptor.routing.channel_routes import RoutingChannel
from acceptor.routing.counting import Counting
from acceptor.routing.route import Barrier, Route, Target
from acceptor.routing.routing import MESSAGE, ROUTE, Publisher, Routing, Run, Unfinished
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.methods_cy import short_string
from penstock.amqp.replies import carrier, home_of
from penstock.bus import to_shard
from penstock.limits.features import message_ttl_on_wire
from penstock.limits.watermarks import overflow_on_wire
from router.model.grants import NOBODY, Grants
from router.model.matching import PropertyIndex
from router.model.policy_keys import SHARED
from router.model.records import DEFAULT_EXCHANGE, DELAYED_MESSAGE
from router.model.topics_cy import Work
from router.model.topology import Queue, Topology
from router.model.working import Working

if TYPE_CHECKING:
    from acceptor.gates.confirms import Span, Way
    from acceptor.gates.permissions import Access
    from acceptor.links.shard_link import ShardLink
    from acceptor.routing.gates import Gates

# Routes cached; a producer that makes up routing keys empties the cache, and cannot fill memory.
CACHE_SIZE = 65536
# The most characters that the further routing keys of a cached route have together.
CACHED_KEYS = 1024
# Routes cached by properties, the most traits of a message that one may depend on, and the most places visited to find
# these.
PROPERTIES_CACHE_SIZE = 8192
CACHED_TRAITS = 64
EXAMINED_MAX = 1024


class Moving(Protocol):
    """The queues that move (acceptor/moving/moving.py)."""

    @property
    def away(self) -> Collection[int]: ...

    def gates_of(self, queues: tuple[Queue, ...]) -> list[MoveGate]: ...


class Routes:
    """The route cache of an acceptor. A route has the gates that existed when it was made."""

    def __init__(self, topology: Topology, links: list[ShardLink], acceptors: int, gates: Gates, moves: Moving) -> None:
        self.topology = topology
        self.links = links
        self.acceptors = acceptors
        self.gates = gates
        self.moves = moves
        self.grants = Grants(topology)
        self.cache: dict[tuple[Any, ...], Route] = {}
        self.properties_cache: dict[tuple[Any, ...], Route] = {}
        self.epoch = 0
        self.counting = Counting()

    def clear(self) -> None:
        """Empty the cache and end its `epoch`, as something that routes are made of has changed."""
        self.epoch += 1
        self.cache.clear()
        self.properties_cache.clear()

    def count(self, now: float) -> dict[str, Any]:
        """Return the publishes counted so far (`Counting.report`); start counting if it is not on."""
        if self.counting.ask(now):
            self.clear()
        return self.counting.report(now)

    def end_idle_counting(self, now: float) -> None:
        """Stop counting if no operator asks any more; called once a second."""
        if self.counting.is_over(now):
            self.clear()

    def check(self, access: Access, address: bytes, further: tuple[str, ...]) -> None:
        """Raise AMQPError if there is no such exchange, or the user may not publish to it."""
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

    def delays(self, access: Access, address: bytes) -> bool:
        """Whether the exchange of an address delays messages."""
        record = self.topology.exchange(access.vhost, names(address)[0])
        return record is not None and record.type == DELAYED_MESSAGE

    def find(self, publisher: Publisher, address: bytes, further: tuple[str, ...] = ()) -> Route:
        """Return the route of an exchange and routing key (two short strings), and of further routing keys.

        AMQPError as in `check`; `Unfinished` if it costs more than the connection's remaining budget of this turn, or
        a service has to be asked.
        """
        access = publisher.access
        route = self.cache.get((access, address, further) if further else (access, address))
        if route is None:
            epoch, work = self.epoch, publisher.budget()
            try:
                next(self.making(work, access, address, further))
            except Undecided as undecided:
                undecided.start(lambda _: None)
                raise Unfinished from undecided
            except StopIteration as made:
                route = cast("Route", made.value)
                self.keep(access, address, route, epoch)
            else:
                raise Unfinished
        return route

    def route_for(self, channel: RoutingChannel, run: Run) -> Route | None:
        """Return the route of a channel's next publishes, made from turn to turn; None if it needs another turn.
        AMQPError as in `check`; `Undecided` if a service has to be asked.
        """
        access, address, further = channel.access, run.address, run.further
        route = self.cache.get((access, address, further) if further else (access, address))
        if route is None:
            work = channel.budget()
            routing = self.routing(channel, run, lambda: self.making(work, access, address, further))
            try:
                route = routing.advance()
            except Undecided:
                channel.routes.in_the_making = None
                raise
            if route is not None:
                channel.routes.in_the_making = None
                self.keep(access, address, route, routing.epoch)
        return route

    def routing(self, channel: RoutingChannel, run: Run, begin: Callable[[], Working[Route]]) -> Routing:
        """Return the route in the making for a run; begin it if there is none."""
        routing = channel.routes.in_the_making
        if routing is None or routing.batch is not run.batch or routing.first != run.first:
            routing = Routing(run.batch, run.first, self.epoch, begin())
            channel.routes.in_the_making = routing
        return routing

    def keep(self, access: Access, address: bytes, route: Route, epoch: int) -> None:
        """Cache a route, unless something has changed since it was begun."""
        if epoch == self.epoch and sum(map(len, route.further)) <= CACHED_KEYS:
            if len(self.cache) >= CACHE_SIZE:
                self.cache.clear()
            self.cache[(access, address, route.further) if route.further else (access, address)] = route

    def waits(self, queue_gate: QueueGate, span: Span) -> bool:
        """Whether publishes along the route of a span wait for a queue now."""
        return span.route is None or self.passes(queue_gate, span.channel, span.route)

    def passes(self, queue_gate: QueueGate, publisher: Publisher, before: Way) -> bool:
        """Whether publishes along the way of an earlier route must pass the gate of a queue now."""
        try:
            route = self.find(publisher, before.address(), before.further)
        except AMQPError:
            return False
        except Unfinished:
            return True
        if route.by_properties:
            return True  # the properties are gone
        return queue_gate in route.queue_gates and (route.fan is None or queue_gate not in route.fan.leavers())

    def making(self, work: Work, access: Access, address: bytes, further: tuple[str, ...]) -> Working[Route]:
        """Make the route of an address, from turn to turn as the budget allows."""
        self.check(access, address, further)
        while work.left <= 0:
            yield
        work.spend(ROUTE + len(further))
        exchange, key = names(address)
        by_properties = self.topology.property_indexes(access.vhost, exchange)
        if by_properties:
            return Route(exchange, key, further, by_properties, ())
        return (yield from self.route(work, access, exchange, key, None, further))

    def by_properties(
        self, channel: RoutingChannel, run: Run, route: Route, properties: dict[str, object]
    ) -> Route | None:
        """Return the route of a run's first message, by its properties too; None if it needs another turn."""
        work = channel.budget()
        work.spend(MESSAGE)
        if work.left <= 0:
            return None
        traits = traits_of(route.by_properties, properties, work)
        where = None if traits is None else (channel.access, run.address, run.further, traits)
        found = None if where is None else self.properties_cache.get(where)
        if found is None:
            routing = self.routing(channel, run, lambda: self.of_message(work, channel.access, route, properties))
            found = routing.advance()
            if found is not None:
                channel.routes.in_the_making = None
                if where is not None and routing.epoch == self.epoch:
                    if len(self.properties_cache) >= PROPERTIES_CACHE_SIZE:
                        self.properties_cache.clear()
                    self.properties_cache[where] = found
        return found

    def of_message(self, work: Work, access: Access, route: Route, properties: dict[str, object]) -> Working[Route]:
        """Make the route of a message by its properties."""
        while work.left <= 0:
            yield
        work.spend(ROUTE)
        return (yield from self.route(work, access, route.exchange, route.key, properties, route.further))

    def route(
        self, work: Work, access: Access, exchange: str, key: str, properties: dict[str, object] | None,
        further: tuple[str, ...],
    ) -> Working[Route]:  # fmt: skip
        """Find the queues of a publish, and make its route."""
        keys = (key, *further)
        passed: dict[str, None] = {}
        queues = yield from self.topology.routing(work, access.vhost, exchange, keys, properties, passed)
        powerless = yield from self.grants.powerless(work, access.vhost, exchange, keys, properties, passed, queues)
        work.spend(len(queues))
        return self.made(access, exchange, keys, properties is not None, passed, self.now(queues), powerless)

    def now(self, queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
        """Return those of the queues that still exist, in their current state."""
        found = (self.topology.queue_by_id(queue.queue_id) for queue in queues)
        return tuple(queue for queue in found if queue is not None)

    def made(
        self, access: Access, exchange: str, keys: tuple[str, ...], by_properties: bool, passed: dict[str, None],
        queues: tuple[Queue, ...], powerless: frozenset[int],
    ) -> Route:  # fmt: skip
        """Return the route to queues by way of the exchanges that were passed."""
        key, *further = keys
        heeded = tuple(queue for queue in queues if queue.queue_id not in powerless) if powerless else queues
        targets = self.targets(queues, powerless)
        if self.gates.pools.active:
            self.put_before(targets, self.gates.pools.of(access, passed, key, heeded))
        if exchange == DEFAULT_EXCHANGE and not by_properties:
            targets += self.reply_targets(keys)
        stops = [gate for gate in self.gates.stops.values() if gate.concerns(access, exchange, keys, queues)]
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
        return Route(exchange, key, tuple(further), (), targets, tuple(passed), barriers, rates, fan, returning,
                     counter, powerless, expires)  # fmt: skip

    def fan_of(self, targets: tuple[Target, ...], vhost: str, exchanges: Iterable[str]) -> Fan | None:
        """Return the flow set of the targets' queues, if they have one."""
        queue_gates = [
            queue_gate for target in targets for queue_gate in target.queue_gates if not isinstance(queue_gate, Pool)
        ]
        return fan_of(queue_gates, self.topology, vhost, exchanges, self.report_lagging)

    def report_lagging(self, queue_gate: QueueGate) -> None:
        """Report to a queue's shard that the queue lags, ahead of the publishes that it gets for that reason."""
        queue = self.queue(queue_gate.id)
        if queue is not None:
            self.links[queue.shard].send(to_shard.Lagging(queue_gate.id))

    def put_before(self, targets: tuple[Target, ...], pools: list[Pool]) -> None:
        """Put pools before targets: each as often as a message counts in it, once for each of its queues."""
        for pool in pools:
            pool.find_members()
        for target in targets:
            slots = [queue.slot for id in target.queues if (queue := self.queue(id)) is not None]
            for pool in pools:
                times = 1 if pool.limit.shared != SHARED[0] else sum(slot in pool.members for slot in slots)
                target.queue_gates += (pool,) * max(times, 1)

    def gates_of(self, vhost: str) -> tuple[VhostGate, ...]:
        """Return the gate of a vhost that is stopped ahead of others, if it is."""
        gate = self.gates.pressure.gates.get(vhost)
        return () if gate is None else (gate,)

    def queue(self, id: int | str) -> Queue | None:
        """Return the queue of an id; None if it is gone, or if the id is a reply consumer's name."""
        return self.topology.queue_by_id(id) if isinstance(id, int) else None

    def targets(self, queues: tuple[Queue, ...], powerless: frozenset[int] = NOBODY) -> tuple[Target, ...]:
        """Return the targets of queues, one for each shard. Powerless queues have no queue gates."""
        targets: dict[int, Target] = {}
        for queue in queues:
            target = targets.get(queue.shard)
            if target is None:
                target = targets[queue.shard] = Target(self.links[queue.shard])
            target.queues += (queue.queue_id,)
            target.slots += (queue.slot,)
            queue_gate = self.gates.queue_gates.get(queue.queue_id)
            if queue_gate is not None and queue.queue_id not in powerless:
                target.queue_gates += (queue_gate,)
        return tuple(targets.values())

    def reply_targets(self, keys: tuple[str, ...]) -> tuple[Target, ...]:
        """Return the targets of answers to reply consumers: shards that pass them on. A consumer that is gone counts as
        well.
        """
        targets = []
        for key in keys:
            home = home_of(key)
            if home is not None and home.acceptor < self.acceptors:
                target = Target(self.links[carrier(key, carriers(self.topology))], keeps=False)
                target.queues = (key,)
                targets.append(target)
        return tuple(targets)


def names(address: bytes) -> tuple[str, str]:
    """Return the exchange and routing key of two short strings. AMQPError (501) unless they are UTF-8."""
    split = 1 + address[0]
    return short_string(address[1:split]), short_string(address[split + 1 :])


def traits_of(
    indexes: Sequence[PropertyIndex], properties: dict[str, object], work: Work
) -> tuple[Collection[object], ...] | None:
    """Return what a message's route depends on beside its keys. None if examining or caching it is not worthwhile."""
    examined = sum(index.examining(properties) for index in indexes)
    if examined > EXAMINED_MAX:
        return None
    work.spend(examined)
    traits = tuple(index.traits(properties) for index in indexes)
    return traits if sum(map(len, traits)) <= CACHED_TRAITS else None
