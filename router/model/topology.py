"""The topology: vhosts, exchanges, queues and bindings, and the routes of messages.

The router changes it, all other processes follow: each has a replica of this class, builds it from a snapshot and
applies every change that the router publishes after that. Changes are lists, as sent over the bus:

    ["vhost", name]
    ["vhost_gone", name]                                                   when nothing is left in it
    ["policy", vhost, operator, name, pattern, apply_to, priority, definition]     vhost "": of the node
    ["policy_gone", vhost, operator, name]
    ["exchange", vhost, name, type, durable, auto_delete, internal, arguments, policy | None,
     alternate exchange by policy | None, maker | None]
    ["exchange_gone", vhost, name]
    ["queue", vhost, name, queue_id, slot, shard, durable, auto_delete, owner | None, arguments, limits, features,
     policy | None, operator policy | None, maker | None]
    ["queue_gone", vhost, name, queue_id]
    ["binding", vhost, source, kind, destination, key, arguments, maker | None]    kind is "queue" or "exchange"
    ["binding_gone", vhost, source, kind, destination, key, arguments]
    ["placement", vhost, queue name, shard | None]                         None: by the hash
    ["placement_version", number]                                          counts changes of placements
    ["shard", number, state]                                               new, or another state (authority.shards)
    ["shard_gone", number]
    ["move", queue_id, epoch, source, target, phase, incarnation of source, of target, plan | None, since, count,
     octets, checksum, outcome, reason, stop]                              a queue moves (router.model.records.Move)
    ["move_gone", queue_id]
    ["user", name, password hash, [tag, ...]]                              new, or changed
    ["user_gone", name]
    ["permission", user, vhost, configure, write, read]                    new, or changed; regular expressions
    ["permission_gone", user, vhost]
    ["topic_permission", user, vhost, exchange, write, read]
    ["topic_permission_gone", user, vhost, exchange]
    ["stop", number, vhost | None, exchange | None, key | None, queue | None, user | None, connection | None, author,
     reason, since, until | None]                                          an operator's
    ["stop_gone", number]
    ["hold_off", user, host, times, since, until, forget_at, reason]        new, or another one of the same
    ["hold_off_gone", user, host]
    ["limits", "vhost" | "user", name, {limit: number}]                     all its limits; empty if none is set

An "exchange" or "queue" of an existing name is the same one, with another place or other governing policies. A binding
is removed before its exchange or destination. The binding of every queue to the default exchange is implied, not
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from router.model.matching import INDEXES, HeadersIndex, Index
from router.model.records import (
    DEFAULT_EXCHANGE,
    Arguments,
    Binding,
    Change,
    Destination,
    Exchange,
    HoldOff,
    Kind,
    Move,
    Policy,
    Queue,
    Stop,
)
from router.model.resource_limits import ResourceLimits
from router.model.tally import Tally
from router.model.topics_cy import Memory, Work
from router.model.users import Users
from router.model.working import Working, at_once

__all__ = ["Binding", "Change", "Exchange", "HoldOff", "Move", "Policy", "Queue", "Stop", "Topology"]

Headers = Mapping[str, object] | Callable[[], Mapping[str, object]] | None
"""A message's headers, or how to get them: they are decoded only where a headers exchange is reached."""


class _Place:
    """An exchange with its bindings. `onward` counts the exchanges among their destinations, `makers` their makers."""

    __slots__ = ("bindings", "exchange", "index", "makers", "onward")

    def __init__(self, exchange: Exchange, memory: Memory) -> None:
        self.exchange = exchange
        self.bindings: dict[Binding, Binding] = {}
        self.index = INDEXES[exchange.type](memory)
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


class Topology:
    """One copy of the topology at a version."""

    def __init__(self, version: int = 0, changes: Iterable[Change] = ()) -> None:
        """Build it from a snapshot. ValueError or KeyError if the changes do not make a topology."""
        self.version = version
        self.users = Users()
        self.limits = ResourceLimits()
        self.reset()
        self._kinds: dict[str, Callable[..., None]] = {
            "vhost": self._vhost,
            "vhost_gone": self._vhost_gone,
            "policy": self._policy,
            "policy_gone": self._policy_gone,
            "exchange": self._exchange,
            "exchange_gone": self._exchange_gone,
            "queue": self._queue,
            "queue_gone": self._queue_gone,
            "binding": self._binding,
            "binding_gone": self._binding_gone,
            "placement": self._placement,
            "placement_version": self._placement_version,
            "shard": self._shard,
            "shard_gone": self._shard_gone,
            "move": self._move,
            "move_gone": self._move_gone,
            "stop": self._stop,
            "stop_gone": self._stop_gone,
            "hold_off": self._hold_off,
            "hold_off_gone": self._hold_off_gone,
            **self.users.kinds,
            **self.limits.kinds,
        }
        for change in changes:
            self.apply(change)

    # Following. The caller sets the version, once all changes of it are applied.

    def reset(self) -> None:
        """Empty the topology, before another snapshot."""
        self.memory = Memory()
        self.users.reset()
        self.limits.reset()
        self.placements: dict[tuple[str, str], int] = {}
        self.placement_version = 0
        self.shards: dict[int, str] = {}
        self.moves: dict[int, Move] = {}
        self.stops: dict[int, Stop] = {}
        self.hold_offs: dict[tuple[str, str], HoldOff] = {}
        self._vhosts: dict[str, _Vhost] = {}
        self._of_the_node: dict[tuple[bool, str], Policy] = {}
        self._by_id: dict[int, Queue] = {}
        self._owned: dict[str, dict[int, Queue]] = {}

    def apply(self, change: Change) -> None:
        """Apply one change. ValueError for an unknown kind, KeyError if it does not fit the topology."""
        kind, *fields = change
        if kind not in self._kinds:
            raise ValueError(f"unknown change of the topology: {kind!r}")
        self._kinds[kind](*fields)

    def _vhost(self, name: str) -> None:
        self._vhosts[name] = _Vhost()

    def _vhost_gone(self, name: str) -> None:
        vhost = self._vhosts.pop(name)
        assert not vhost.places and not vhost.queues and not vhost.arriving and not vhost.policies

    def _policy(self, vhost: str, operator: bool, name: str, *facts: Any) -> None:
        self._policies(vhost)[operator, name] = Policy(vhost, operator, name, *facts)

    def _policy_gone(self, vhost: str, operator: bool, name: str) -> None:
        del self._policies(vhost)[operator, name]

    def _policies(self, vhost: str) -> dict[tuple[bool, str], Policy]:
        return self._vhosts[vhost].policies if vhost else self._of_the_node

    def _exchange(self, vhost: str, name: str, *facts: Any) -> None:
        exchange = Exchange(vhost, name, *facts)
        places = self._vhosts[vhost].places
        if name in places:
            places[name].exchange = exchange
        else:
            places[name] = _Place(exchange, self.memory)

    def _exchange_gone(self, vhost: str, name: str) -> None:
        place = self._vhosts[vhost].places.pop(name)
        assert not place.bindings and ("exchange", name) not in self._vhosts[vhost].arriving

    def _queue(self, vhost: str, name: str, *facts: Any) -> None:
        queue = Queue(vhost, name, *facts)
        self._vhosts[vhost].queues[name] = queue
        self._by_id[queue.queue_id] = queue
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue.queue_id] = queue

    def _queue_gone(self, vhost: str, name: str, queue_id: int) -> None:
        del self._vhosts[vhost].queues[name]
        assert ("queue", name) not in self._vhosts[vhost].arriving
        owner = self._by_id.pop(queue_id).owner
        if owner is not None:
            del self._owned[owner][queue_id]
            if not self._owned[owner]:
                del self._owned[owner]

    def _binding(
        self, vhost: str, source: str, kind: Kind, destination: str, key: str, arguments: Arguments,
        maker: str | None = None,
    ) -> None:  # fmt: skip
        binding = Binding(vhost, source, kind, destination, key, arguments, maker)
        place = self._vhosts[vhost].places[source]
        place.bindings[binding] = binding
        place.makers[maker] = place.makers.get(maker, 0) + 1
        place.index.add(binding)
        if kind == "exchange":
            place.onward.add(binding.target)
        self._vhosts[vhost].arriving.setdefault(binding.target, {})[binding] = None

    def _binding_gone(
        self, vhost: str, source: str, kind: Kind, destination: str, key: str, arguments: Arguments
    ) -> None:
        binding = Binding(vhost, source, kind, destination, key, arguments)
        place = self._vhosts[vhost].places[source]
        maker = place.bindings.pop(binding).maker
        place.makers[maker] -= 1
        if not place.makers[maker]:
            del place.makers[maker]
        place.index.remove(binding)
        if kind == "exchange":
            place.onward.remove(binding.target)
        arriving = self._vhosts[vhost].arriving
        del arriving[binding.target][binding]
        if not arriving[binding.target]:
            del arriving[binding.target]

    def _placement(self, vhost: str, queue: str, shard: int | None) -> None:
        if shard is None:
            self.placements.pop((vhost, queue), None)
        else:
            self.placements[vhost, queue] = shard

    def _placement_version(self, number: int) -> None:
        self.placement_version = number

    def _shard(self, number: int, state: str) -> None:
        self.shards[number] = state

    def _shard_gone(self, number: int) -> None:
        del self.shards[number]

    def _move(self, queue_id: int, *facts: Any) -> None:
        self.moves[queue_id] = Move(queue_id, *facts)

    def _move_gone(self, queue_id: int) -> None:
        del self.moves[queue_id]

    def _stop(self, number: int, *facts: Any) -> None:
        self.stops[number] = Stop(number, *facts)

    def _stop_gone(self, number: int) -> None:
        del self.stops[number]

    def _hold_off(self, user: str, host: str, *facts: Any) -> None:
        self.hold_offs[user, host] = HoldOff(user, host, *facts)

    def _hold_off_gone(self, user: str, host: str) -> None:
        del self.hold_offs[user, host]

    def changes(self) -> Iterator[Change]:
        """Return a snapshot: the changes that make this topology from nothing."""
        for number, state in self.shards.items():
            yield ["shard", number, state]
        for name in self._vhosts:
            yield ["vhost", name]
        yield from (policy.change() for policy in self._of_the_node.values())
        for vhost in self._vhosts.values():
            yield from (policy.change() for policy in vhost.policies.values())
            yield from (place.exchange.change() for place in vhost.places.values())
            yield from (queue.change() for queue in vhost.queues.values())
            for place in vhost.places.values():
                yield from (binding.change() for binding in place.bindings)
        for (name, queue), shard in self.placements.items():
            yield ["placement", name, queue, shard]
        if self.placement_version:
            yield ["placement_version", self.placement_version]
        yield from (move.change() for move in self.moves.values())
        yield from self.users.changes()
        yield from self.limits.changes()
        yield from (stop.change() for stop in self.stops.values())
        yield from (found.change() for found in self.hold_offs.values())

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

    def queues(self) -> Collection[Queue]:
        """Return all queues, in the order in which they were added."""
        return self._by_id.values()

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
        self, vhost: str, exchange: str, routing_key: str, headers: Headers = None,
        passed: dict[str, None] | None = None,
    ) -> tuple[Queue, ...]:  # fmt: skip
        """Return the queues that a message goes to (`routing`) without pausing, whatever the cost."""
        return at_once(self.routing(Work(), vhost, exchange, (routing_key,), headers, passed))

    def routing(
        self,
        work: Work,
        vhost: str,
        exchange: str,
        keys: Collection[str],
        headers: Headers = None,
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
                found |= {key: inside.queues[key] for key in keys if key in inside.queues}
                continue
            if place is None:
                continue
            if isinstance(place.index, HeadersIndex) and not isinstance(headers, Mapping):
                headers = headers() if headers else {}
            destinations = yield from _matching(
                work, place.index, keys, headers if isinstance(headers, Mapping) else {}
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

    def headers_indexes(self, vhost: str, exchange: str) -> list[HeadersIndex]:
        """Return the indexes of the headers exchanges that messages from an exchange may pass: only by these can the
        routes of messages with the same routing key differ.
        """
        inside = self._vhosts.get(vhost)
        found: list[HeadersIndex] = []
        if inside is None:
            return found
        passed = {exchange}
        waiting = [exchange]
        while waiting:
            place = inside.places.get(waiting.pop())
            if place is None:
                continue
            if isinstance(place.index, HeadersIndex):
                found.append(place.index)
            for _, destination in (*place.onward, *_alternate(place.exchange)):
                if destination not in passed:
                    passed.add(destination)
                    waiting.append(destination)
        return found


def _matching(
    work: Work, index: Index, keys: Collection[str], headers: Mapping[str, object]
) -> Working[Collection[Destination]]:
    """Return the destinations of an exchange's bindings that match any of the keys."""
    found: dict[Destination, None] = {}
    for key in keys:
        walk = index.walk(key, headers)
        while not walk.go_on(work):
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
