"""Grants: the bindings through which a queue may hold, slow or refuse publishes, or shut a lane.

A binding grants its queue this power if the maker of the binding could publish there: if it may write to the exchange
and, where topic permissions limit that, with the routing key. On a path over several exchanges each binding has to
grant it. The present rights count: a maker that has lost the right, or was deleted, grants nothing. A binding without a
known maker grants everything. So does an alternate exchange, which is chosen by the user who declares the exchange or
sets its policy. A publish to a queue by name, through the default exchange, needs no grant.

A queue without a grant has no effect on a publish (`Grants.powerless`), whatever its declaration says; nor has an
unprivileged queue (router/authority/standing.py). A policy of the queue may grant it the power nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from penstock.limits.features import UNCONSUMED, granted_on_wire, unprivileged_reason_on_wire
from router.model.index import Index
from router.model.matching import index_of, keys_read
from router.model.records import DEFAULT_EXCHANGE, Binding, Destination, Queue
from router.model.topics_cy import Memory, Work

if TYPE_CHECKING:
    from router.model.topology import Properties, Topology
    from router.model.working import Working

NOBODY: frozenset[int] = frozenset()
# The most indexes kept of bindings whose makers may use some routing keys only.
PARTIAL_MOST = 1024


Way: TypeAlias = tuple[str, str, Destination]
"""A vhost, an exchange in it, and a destination of its bindings."""


def grants(topology: Topology, binding: Binding) -> bool:
    """Whether a binding grants its queue power over all publishes that take it."""
    return _maker_may_write(topology, binding) and not _is_limited(topology, binding)


def refused_by(topology: Topology, binding: Binding) -> str | None:
    """Return why a binding grants nothing, or not for all routing keys; None if it grants everything."""
    if not _maker_may_write(topology, binding):
        return f"'{binding.maker}' may not write to exchange '{binding.source}'"
    if _is_limited(topology, binding):
        return f"'{binding.maker}' may not write to all topics of exchange '{binding.source}'"
    return None


def has_power(queue: Queue) -> bool:
    """Whether a queue has power over publishes that come by a binding that grants it."""
    return granted_on_wire(queue.features) or unprivileged_reason_on_wire(queue.features) in (None, UNCONSUMED)


def _maker_may_write(topology: Topology, binding: Binding) -> bool:
    maker = binding.maker
    return maker is None or topology.users.may(maker, binding.vhost, "write", binding.source)


def _is_limited(topology: Topology, binding: Binding) -> bool:
    if binding.maker is None or not topology.users.limits_topics(binding.maker, binding.vhost, binding.source):
        return False
    exchange = topology.exchange(binding.vhost, binding.source)
    return exchange is not None and exchange.routing_type == "topic"


class Grants:
    """The grants of the bindings in a replica of the topology. Results are remembered until the topology changes."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._version = self._generation = -1
        # Exchanges whose bindings all grant everything, other exchanges, and queues with power.
        self._open: set[tuple[str, str]] = set()
        self._shut: set[tuple[str, str]] = set()
        self._strong: set[int] = set()
        self._feeders: dict[int, str | None] = {}
        self._bindings: dict[Way, dict[str | None, list[Binding]]] = {}
        self._partial: dict[tuple[Way, frozenset[str | None]], Index] = {}

    def powerless(
        self,
        work: Work,
        vhost: str,
        exchange: str,
        keys: tuple[str, ...],
        properties: Properties,
        exchanges: Collection[str],
        queues: Collection[Queue],
    ) -> Working[frozenset[int]]:
        """Return the ids of those of a publish's queues that have no power over it.

        `exchange` and `keys` are those of the publish, `exchanges` all that it passes.
        """
        if exchange == DEFAULT_EXCHANGE or not queues:
            return NOBODY
        self._refresh()
        strong, known = self._strong, self._open
        for queue in queues:  # plain loops: where exchanges look at properties they run for each message
            if queue.queue_id not in strong:
                break
        else:
            for name in exchanges:
                if (vhost, name) not in known:
                    break
            else:
                return NOBODY
        found = [queue.queue_id for queue in queues if not self._has_power(queue)]
        if not all(self._is_open(vhost, name) for name in exchanges):
            reached = {queue.queue_id for queue in (yield from self._reached(work, vhost, exchange, keys, properties))}
            others = (queue for queue in queues if queue.queue_id not in reached)
            found += [queue.queue_id for queue in others if not granted_on_wire(queue.features)]
        return frozenset(found) if found else NOBODY

    def feeder(self, queue_id: int) -> str | None:
        """Return why a queue may get more than it would let in: a binding on a path to it does not grant it power over
        all publishes that take it. None if there is no such binding or no such queue.
        """
        self._refresh()
        if queue_id not in self._feeders:
            queue = self.topology.queue_by_id(queue_id)
            refusing = () if queue is None or granted_on_wire(queue.features) else self.refusing_bindings(queue)
            self._feeders[queue_id] = next((why for _, why in refusing), None)
        return self._feeders[queue_id]

    def _refresh(self) -> None:
        """Forget all results if the topology has changed."""
        topology = self.topology
        if topology.version != self._version or topology.users.generation != self._generation:
            self._version, self._generation = topology.version, topology.users.generation
            self._open.clear()
            self._shut.clear()
            self._strong.clear()
            self._feeders.clear()
            self._bindings.clear()
            self._partial.clear()

    def _has_power(self, queue: Queue) -> bool:
        if queue.queue_id in self._strong:
            return True
        if not has_power(queue):
            return False
        self._strong.add(queue.queue_id)
        return True

    def _is_open(self, vhost: str, exchange: str) -> bool:
        """Whether all bindings from an exchange grant everything."""
        if (vhost, exchange) in self._open:
            return True
        if (vhost, exchange) in self._shut:
            return False
        makers = self.topology.makers(vhost, exchange)
        anyone = (Binding(vhost, exchange, "queue", "", "", {}, maker) for maker in makers)
        if not all(grants(self.topology, binding) for binding in anyone):
            self._shut.add((vhost, exchange))
            return False
        self._open.add((vhost, exchange))
        return True

    def _reached(
        self, work: Work, vhost: str, exchange: str, keys: tuple[str, ...], properties: Properties
    ) -> Working[tuple[Queue, ...]]:
        """Return the queues that a publish reaches by granting bindings alone."""
        known = properties() if callable(properties) else properties or {}
        by = self._granting(work, vhost, keys, known)
        return self.topology.routing(work, vhost, exchange, keys, known, by=by)

    def _granting(
        self, work: Work, vhost: str, keys: tuple[str, ...], properties: Mapping[str, object]
    ) -> Callable[[str, Destination], Working[bool]]:
        """Return a predicate: whether a binding that the publish takes from an exchange to a destination grants."""

        def granting(source: str, destination: Destination) -> Working[bool]:
            self._refresh()
            way = vhost, source, destination
            by_maker = self._by_maker(work, way)
            able = frozenset(maker for maker in by_maker if self._could_publish(vhost, source, maker, keys))
            if len(able) in (0, len(by_maker)):
                return bool(able)
            index = self._index(work, way, able)
            for key in keys_read(index, keys):
                walk = index.walk(key, properties)
                while not walk.advance(work):
                    yield
                if walk.found:
                    return True
            return False

        return granting

    def _by_maker(self, work: Work, way: Way) -> dict[str | None, list[Binding]]:
        """Return the bindings from an exchange to a destination, by maker."""
        found = self._bindings.get(way)
        if found is None:
            found = self._bindings[way] = {}
            vhost, source, destination = way
            bindings = self.topology.bindings_to(vhost, *destination)
            work.spend(len(bindings))
            for binding in bindings:
                if binding.source == source:
                    found.setdefault(binding.maker, []).append(binding)
        return found

    def _index(self, work: Work, way: Way, makers: frozenset[str | None]) -> Index:
        """Return an index of the bindings of some makers from an exchange to a destination."""
        index = self._partial.get((way, makers))
        if index is None:
            exchange = self.topology.exchange(way[0], way[1])
            assert exchange is not None
            index = index_of(exchange, Memory(0))
            for maker in makers:
                for binding in self._bindings[way][maker]:
                    index.add(binding)
                    work.spend(1)
            if len(self._partial) >= PARTIAL_MOST:
                self._partial.clear()
            self._partial[way, makers] = index
        return index

    def _could_publish(self, vhost: str, source: str, maker: str | None, keys: tuple[str, ...]) -> bool:
        """Whether the maker of a binding could publish with these routing keys to its exchange."""
        anyone, users = Binding(vhost, source, "queue", "", "", {}, maker), self.topology.users
        if not _maker_may_write(self.topology, anyone):
            return False
        if maker is None or not _is_limited(self.topology, anyone):
            return True
        return all(users.may_use_topic(maker, vhost, source, "write", key) for key in keys)

    def refusing_bindings(self, queue: Queue) -> Iterator[tuple[str, str]]:
        """Return the exchange of each binding on a path to a queue that does not grant it power over all publishes, and
        why. Grants by policy are ignored.
        """
        waiting = list(self.topology.bindings_to(queue.vhost, "queue", queue.name))
        passed: set[str] = set()
        while waiting:
            binding = waiting.pop()
            if (why := refused_by(self.topology, binding)) is not None:
                yield binding.source, why
            if binding.source not in passed:
                passed.add(binding.source)
                waiting += self.topology.bindings_to(queue.vhost, "exchange", binding.source)
