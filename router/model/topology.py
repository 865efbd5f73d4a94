"""The topology: vhosts, exchanges, queues and bindings, and the routes of messages.

The router changes it, all other processes follow: each has a replica of this class, builds it from a snapshot and
applies every change that the router publishes after that. Changes are those of `router.model.record_kind`, of the kinds
in `router.model.kinds`, and one more:

    ["placement_version", number]       counts changes of placements
    ["last_stop", number]               the number of the latest stop by an operator
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from router.model.delaying import is_delay_queue
from router.model.index import Index
from router.model.kinds import KINDS
from router.model.matching import PropertyIndex, index_of, keys_read
from router.model.record_kind import Change, Keeper, Record, Records
from router.model.records import (
    DEFAULT_EXCHANGE,
    PRECOPYING,
    Binding,
    Destination,
    Exchange,
    HoldOff,
    Kind,
    Move,
    Placement,
    Policy,
    Queue,
    Shard,
    Stop,
    Vhost,
    VhostMetadata,
)
from router.model.resource_limits import HolderLimits, ResourceLimits
from router.model.tally import Tally
from router.model.topics_cy import Memory, Work
from router.model.users import Permission, TopicPermission, User, Users
from router.model.working import Working, at_once

R = TypeVar("R", bound=Record)

PLACEMENT_VERSION, LAST_STOP = "placement_version", "last_stop"
COUNTERS = (PLACEMENT_VERSION, LAST_STOP)
"""The numbers of a topology, which only increase. Each is a change by itself."""
"""The one change that makes no record."""

__all__ = ["Binding", "Change", "Exchange", "HoldOff", "Move", "Policy", "Queue", "Stop", "Topology"]

Properties = Mapping[str, object] | Callable[[], Mapping[str, object]] | None
"""A message's properties, or how to get them: they are decoded only where an exchange looks at them."""


class _Place:
    """An exchange with its bindings. `onward` counts the exchanges among their destinations, `makers` their makers."""

    __slots__ = ("bindings", "exchange", "index", "makers", "onward")

    def __init__(self, exchange: Exchange, memory: Memory) -> None:
        self.exchange = exchange
        self.bindings: dict[Binding, Binding] = {}
        self.index = index_of(exchange, memory)
        self.makers: dict[str | None, int] = {}
        self.onward = Tally()


class _Vhost:
    """The contents of a vhost: `arriving` are its bindings by destination, `policies` both sets by (operator, name)."""

    __slots__ = ("arriving", "places", "policies", "queues")

    def __init__(self) -> None:
        self.policies: dict[tuple[bool, str], Policy] = {}
        self.places: dict[str, _Place] = {}
        self.queues: dict[str, Queue] = {}
        self.arriving: dict[Destination, dict[Binding, None]] = {}


class _Part(NamedTuple):
    """A `Keeper` of records that the topology keeps in several places."""

    put: Callable[[Any], None]
    remove: Callable[..., None]
    values: Callable[[], Iterable[Record]]


class Topology:
    """One copy of the topology at a version."""

    def __init__(self, version: int = 0, changes: Iterable[Change] = ()) -> None:
        """Build it from a snapshot. ValueError or KeyError if the changes do not make a topology."""
        self.version = version
        self._keepers: dict[type[Record], Keeper] = {
            Vhost: _Part(self._put_vhost, self._remove_vhost, lambda: map(Vhost, self._vhosts)),
            Policy: _Part(self._put_policy, self._remove_policy, self._policies_everywhere),
            Exchange: _Part(self._put_exchange, self._remove_exchange, self._exchanges),
            Queue: _Part(self._put_queue, self._remove_queue, self.queues),
            Binding: _Part(self._put_binding, self._remove_binding, self._bindings),
        }
        self.shards: Records[int, Shard] = self._kept(Shard)
        self.vhost_metadata: Records[str, VhostMetadata] = self._kept(VhostMetadata)
        self.placements: Records[tuple[str, str], Placement] = self._kept(Placement)
        self.moves: Records[int, Move] = self._kept(Move)
        self.users = Users(self._kept(User), self._kept(Permission), self._kept(TopicPermission))
        self.limits = ResourceLimits(self._kept(HolderLimits))
        self.stops: Records[int, Stop] = self._kept(Stop)
        self.hold_offs: Records[tuple[str, str], HoldOff] = self._kept(HoldOff)
        self._appliers: dict[str, Callable[[Change], None]] = dict.fromkeys(COUNTERS, self._count)
        for record_type in KINDS:
            self._appliers |= _appliers(record_type, self._keepers[record_type])
        self.reset()
        for change in changes:
            self.apply(change)

    def _kept(self, record_type: type[R]) -> Records[Any, R]:
        """Return the records of a kind that is kept by key, and only there."""
        records = self._keepers[record_type] = Records[Any, R]()
        return records

    # Following. The caller sets the version, once all changes of it are applied.

    def reset(self) -> None:
        """Empty the topology, before another snapshot."""
        for keeper in self._keepers.values():
            if isinstance(keeper, Records):
                keeper.clear()
        self.memory = Memory()
        self.counters = dict.fromkeys(COUNTERS, 0)
        self._vhosts: dict[str, _Vhost] = {}
        self._of_the_node: dict[tuple[bool, str], Policy] = {}
        self._by_id: dict[int, Queue] = {}
        self._owned: dict[str, dict[int, Queue]] = {}

    def apply(self, change: Change) -> None:
        """Apply one change. ValueError for an unknown kind, KeyError if it does not fit the topology."""
        applier = self._appliers.get(change[0])
        if applier is None:
            raise ValueError(f"unknown change of the topology: {change[0]!r}")
        applier(change)

    def load(self, version: int, changes: Iterable[Change]) -> None:
        """Replace all by a snapshot."""
        self.reset()
        self.follow(version, changes)

    def follow(self, version: int, changes: Iterable[Change]) -> None:
        """Apply the changes that lead to a version."""
        for change in changes:
            self.apply(change)
        self.version = version

    def changes(self) -> Iterator[Change]:
        """Return a snapshot: the changes that make this topology from nothing."""
        for record_type in KINDS:
            yield from record_type.record_kind.changes(self._keepers[record_type].values())
        yield from ([name, number] for name, number in self.counters.items() if number)

    @property
    def placement_version(self) -> int:
        """The number of changes of placements so far."""
        return self.counters[PLACEMENT_VERSION]

    def _count(self, change: Change) -> None:
        name, number = change
        self.counters[name] = number

    def _put_vhost(self, vhost: Vhost) -> None:
        self._vhosts[vhost.name] = _Vhost()

    def _remove_vhost(self, name: str) -> None:
        vhost = self._vhosts.pop(name)
        assert not vhost.places and not vhost.queues and not vhost.arriving and not vhost.policies

    def _put_policy(self, policy: Policy) -> None:
        self._policies(policy.vhost)[policy.operator, policy.name] = policy

    def _remove_policy(self, vhost: str, operator: bool, name: str) -> None:
        del self._policies(vhost)[operator, name]

    def _policies(self, vhost: str) -> dict[tuple[bool, str], Policy]:
        return self._vhosts[vhost].policies if vhost else self._of_the_node

    def _policies_everywhere(self) -> Iterator[Policy]:
        for vhost in ("", *self._vhosts):
            yield from self._policies(vhost).values()

    def _put_exchange(self, exchange: Exchange) -> None:
        places = self._vhosts[exchange.vhost].places
        if exchange.name in places:
            places[exchange.name].exchange = exchange
        else:
            places[exchange.name] = _Place(exchange, self.memory)

    def _remove_exchange(self, vhost: str, name: str) -> None:
        place = self._vhosts[vhost].places.pop(name)
        assert not place.bindings and ("exchange", name) not in self._vhosts[vhost].arriving

    def _exchanges(self) -> Iterator[Exchange]:
        for vhost in self._vhosts.values():
            for place in vhost.places.values():
                yield place.exchange

    def _put_queue(self, queue: Queue) -> None:
        self._vhosts[queue.vhost].queues[queue.name] = queue
        self._by_id[queue.queue_id] = queue
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue.queue_id] = queue

    def _remove_queue(self, vhost: str, name: str, queue_id: int) -> None:
        del self._vhosts[vhost].queues[name]
        assert ("queue", name) not in self._vhosts[vhost].arriving
        owner = self._by_id.pop(queue_id).owner
        if owner is not None:
            del self._owned[owner][queue_id]
            if not self._owned[owner]:
                del self._owned[owner]

    def _put_binding(self, binding: Binding) -> None:
        vhost = self._vhosts[binding.vhost]
        place = vhost.places[binding.source]
        place.bindings[binding] = binding
        place.makers[binding.maker] = place.makers.get(binding.maker, 0) + 1
        place.index.add(binding)
        if binding.kind == "exchange":
            place.onward.add(binding.target)
        vhost.arriving.setdefault(binding.target, {})[binding] = None

    def _remove_binding(self, *key: Any) -> None:
        binding = Binding(*key)
        vhost = self._vhosts[binding.vhost]
        place = vhost.places[binding.source]
        maker = place.bindings.pop(binding).maker
        place.makers[maker] -= 1
        if not place.makers[maker]:
            del place.makers[maker]
        place.index.remove(binding)
        if binding.kind == "exchange":
            place.onward.remove(binding.target)
        del vhost.arriving[binding.target][binding]
        if not vhost.arriving[binding.target]:
            del vhost.arriving[binding.target]

    def _bindings(self) -> Iterator[Binding]:
        for vhost in self._vhosts.values():
            for place in vhost.places.values():
                yield from place.bindings

    # Looking up

    def has_vhost(self, name: str) -> bool:
        return name in self._vhosts

    def vhosts(self) -> list[str]:
        return list(self._vhosts)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        """Return an exchange, None if it, or its vhost, does not exist."""
        inside = self._vhosts.get(vhost)
        place = inside.places.get(name) if inside else None
        return place.exchange if place else None

    def queue(self, vhost: str, name: str) -> Queue | None:
        """Return a queue, None if it, or its vhost, does not exist."""
        inside = self._vhosts.get(vhost)
        return inside.queues.get(name) if inside else None

    def policy(self, vhost: str, name: str, *, operator: bool) -> Policy | None:
        """Return a policy of a vhost ("": of the node), None if it, or its vhost, does not exist."""
        if vhost and vhost not in self._vhosts:
            return None
        return self._policies(vhost).get((operator, name))

    def policies(self, vhost: str, *, operator: bool) -> list[Policy]:
        """Return the policies, or the operator policies, of an existing vhost ("": of the node)."""
        return [policy for policy in self._policies(vhost).values() if policy.operator == operator]

    def all_policies(self) -> Iterator[Policy]:
        """Return the policies of the node and of every vhost, without operator policies."""
        for vhost in ("", *self.vhosts()):
            yield from self.policies(vhost, operator=False)

    def queue_by_id(self, queue_id: int) -> Queue | None:
        """Return the queue of that id, None if there is none."""
        return self._by_id.get(queue_id)

    def is_stopped(self, queue_id: int) -> bool:
        """Whether a queue is stopped for its move to another shard."""
        move = self.moves.get(queue_id)
        return move is not None and move.phase != PRECOPYING

    def queues(self) -> Collection[Queue]:
        """Return all queues, in the order in which they were added."""
        return self._by_id.values()

    def declarations(self) -> Iterator[Exchange | Queue | Binding]:
        """Return all exchanges, queues and bindings."""
        yield from self._exchanges()
        yield from self.queues()
        yield from self._bindings()

    def queues_in(self, vhost: str) -> list[Queue]:
        """Return the queues of an existing vhost."""
        return list(self._vhosts[vhost].queues.values())

    def exchanges_in(self, vhost: str) -> list[Exchange]:
        """Return the exchanges of an existing vhost, including the default exchange."""
        return [place.exchange for place in self._vhosts[vhost].places.values()]

    def queues_of(self, connection: str) -> list[Queue]:
        """Return the exclusive queues of a connection."""
        return list(self._owned.get(connection, {}).values())

    def owners(self) -> list[str]:
        """Return the connections that have exclusive queues."""
        return list(self._owned)

    def binding(self, wanted: Binding) -> Binding | None:
        """Return the binding that equals the wanted one, with its own arguments and maker; None if there is none."""
        return self._vhosts[wanted.vhost].places[wanted.source].bindings.get(wanted)

    def bindings_from(self, vhost: str, exchange: str) -> Collection[Binding]:
        """Return the bindings from an existing exchange."""
        return self._vhosts[vhost].places[exchange].bindings

    def makers(self, vhost: str, exchange: str) -> Collection[str | None]:
        """Return the makers of the bindings from an exchange; none if it does not exist."""
        inside = self._vhosts.get(vhost)
        place = inside.places.get(exchange) if inside else None
        return () if place is None else place.makers

    def bindings_to(self, vhost: str, kind: Kind, name: str) -> Collection[Binding]:
        """Return the bindings to a queue or an exchange of an existing vhost."""
        return self._vhosts[vhost].arriving.get((kind, name), ())

    # Routing

    def route(
        self, vhost: str, exchange: str, routing_key: str, properties: Properties = None,
        passed: dict[str, None] | None = None,
    ) -> tuple[Queue, ...]:  # fmt: skip
        """Return the queues that a message goes to (`routing`) without pausing, whatever the cost."""
        return at_once(self.routing(Work(), vhost, exchange, (routing_key,), properties, passed))

    def routing(
        self,
        work: Work,
        vhost: str,
        exchange: str,
        keys: Sequence[str],
        properties: Properties = None,
        passed: dict[str, None] | None = None,
        by: Callable[[str, Destination], Working[bool]] | None = None,
    ) -> Working[tuple[Queue, ...]]:
        """Return the queues that a message goes to by any of its routing keys, each once; none without the exchange.

        Each exchange on the way is passed once, so cycles end; all are added to `passed`. A message that matches no
        binding of an exchange goes to its alternate exchange. With `by`, a message goes from an exchange to a
        destination only where `by` is true of them. If the topology changes meanwhile, queues that were bound
        throughout are found, and none that is gone.
        """
        inside = self._vhosts.get(vhost)
        if inside is None:
            return ()
        found: dict[str, Queue] = {}
        passed = {} if passed is None else passed
        passed[exchange] = None
        waiting = [exchange]
        while waiting:
            name = waiting.pop()
            place = inside.places.get(name)
            if name == DEFAULT_EXCHANGE:
                found |= {key: inside.queues[key] for key in keys if key in inside.queues and not is_delay_queue(key)}
                continue
            if place is None:
                continue
            if isinstance(place.index, PropertyIndex) and not isinstance(properties, Mapping):
                properties = properties() if properties else {}
            destinations = yield from _matching(
                work, place.index, keys_read(place.index, keys), properties if isinstance(properties, Mapping) else {}
            )
            if by is not None and destinations:
                destinations = yield from _chosen(destinations, by, name)
                if not destinations:
                    continue
            work.spend(len(destinations))
            for kind, destination in destinations or _alternate(place.exchange):
                if kind == "queue":
                    if destination in inside.queues:
                        found[destination] = inside.queues[destination]
                elif destination not in passed:
                    passed[destination] = None
                    waiting.append(destination)
        return tuple(queue for queue in map(self._current, found.values()) if queue is not None)

    def _current(self, queue: Queue) -> Queue | None:
        """Return the present record of a queue, None if it is gone."""
        return self._by_id.get(queue.queue_id)

    def property_indexes(self, vhost: str, exchange: str) -> list[PropertyIndex]:
        """Return the indexes that look at properties, of the exchanges that messages from an exchange may pass: only by
        these can the routes of messages with the same routing key differ.
        """
        inside = self._vhosts.get(vhost)
        found: list[PropertyIndex] = []
        if inside is None:
            return found
        passed = {exchange}
        waiting = [exchange]
        while waiting:
            place = inside.places.get(waiting.pop())
            if place is None:
                continue
            if isinstance(place.index, PropertyIndex):
                found.append(place.index)
            for _, destination in (*place.onward, *_alternate(place.exchange)):
                if destination not in passed:
                    passed.add(destination)
                    waiting.append(destination)
        return found


def _appliers(record_type: type[Record], keeper: Keeper) -> dict[str, Callable[[Change], None]]:
    """Return the functions that apply the changes of a kind, by the first field of these."""
    kind, put, remove = record_type.record_kind, keeper.put, keeper.remove

    def apply(change: Change) -> None:
        put(record_type(*change[1:]))

    def apply_unless_void(change: Change) -> None:
        if change[-1] not in kind.void:
            apply(change)
            return
        with suppress(KeyError):
            remove(*change[1:-1])

    def apply_gone(change: Change) -> None:
        remove(*change[1:])

    return {kind.name: apply_unless_void} if kind.void else {kind.name: apply, kind.gone: apply_gone}


def _matching(
    work: Work, index: Index, keys: Sequence[str], properties: Mapping[str, object]
) -> Working[Collection[Destination]]:
    """Return the destinations of an exchange's bindings that match any of the keys."""
    found: dict[Destination, None] = {}
    for key in keys:
        walk = index.walk(key, properties)
        while not walk.advance(work):
            yield
        assert walk.found is not None
        if len(keys) == 1:
            return walk.found
        found |= dict.fromkeys(walk.found)
        work.spend(1)
    return found


def _chosen(
    destinations: Collection[Destination], by: Callable[[str, Destination], Working[bool]], source: str
) -> Working[Collection[Destination]]:
    """Return the destinations for which `by` is true."""
    chosen: dict[Destination, None] = {}
    for destination in list(destinations):
        if (yield from by(source, destination)):
            chosen[destination] = None
    return chosen


def _alternate(exchange: Exchange) -> tuple[Destination, ...]:
    return () if exchange.alternate is None else (("exchange", exchange.alternate),)
