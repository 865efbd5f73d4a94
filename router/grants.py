"""Through which bindings a queue may hold, slow or refuse what is published, or shut a lane: those that grant it.

A binding grants what its maker could do without it: publish there. It takes the right to write to the exchange, and
where topic permissions limit that, to the routing key; on a way over several exchanges each binding has to grant it.
What users may do is looked up as it is now: who lost the right, or was deleted, grants nothing any more. A binding
whose maker is not known grants everything, and so do alternate exchanges, which are for those to choose who declare an
exchange or set its policy; who publishes to a queue by its name, by way of the default exchange, needs nobody's grant.

Where no binding grants it to a queue it does nothing to a publish (`Grants.powerless`), whatever its declaration says,
and neither does a temporary one (router/strangers.py); unless a policy of the queue grants it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.features import UNCONSUMED, granted_on_wire, stranger_on_wire
from router.matching import INDEXES
from router.records import DEFAULT_EXCHANGE, Binding, Destination, Queue

if TYPE_CHECKING:
    from router.topology import Headers, Topology

NOBODY: frozenset[int] = frozenset()


def grants(topology: Topology, binding: Binding) -> bool:
    """Whether a binding grants its queue power over all that takes it."""
    return _writes(topology, binding) and not _is_limited(topology, binding)


def refused_by(topology: Topology, binding: Binding) -> str | None:
    """Why a binding grants nothing, or not for all routing keys; None if it does."""
    if not _writes(topology, binding):
        return f"'{binding.maker}' may not write to exchange '{binding.source}'"
    if _is_limited(topology, binding):
        return f"'{binding.maker}' may not write to all topics of exchange '{binding.source}'"
    return None


def has_power(queue: Queue) -> bool:
    """Whether a queue may do anything to what comes by a binding that grants it."""
    return granted_on_wire(queue.features) or stranger_on_wire(queue.features) in (None, UNCONSUMED)


def _writes(topology: Topology, binding: Binding) -> bool:
    maker = binding.maker
    return maker is None or topology.users.may(maker, binding.vhost, "write", binding.source)


def _is_limited(topology: Topology, binding: Binding) -> bool:
    if binding.maker is None or not topology.users.limits_topics(binding.maker, binding.vhost, binding.source):
        return False
    exchange = topology.exchange(binding.vhost, binding.source)
    return exchange is not None and exchange.type == "topic"


class Grants:
    """What the bindings of a replica of the topology grant. What was found is remembered until it changes."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._version = self._generation = -1
        # Exchanges whose bindings all grant everything, others, and queues with power; until the topology changes.
        self._open: set[tuple[str, str]] = set()
        self._shut: set[tuple[str, str]] = set()
        self._strong: set[int] = set()
        self._feeders: dict[int, str | None] = {}

    def powerless(
        self,
        vhost: str,
        exchange: str,
        keys: tuple[str, ...],
        headers: Headers,
        exchanges: Collection[str],
        queues: Collection[Queue],
    ) -> frozenset[int]:
        """Of the queues that a publish goes to, by way of exchanges, the ids of those that can do nothing to it."""
        if exchange == DEFAULT_EXCHANGE or not queues:
            return NOBODY
        self._look()
        strong, known = self._strong, self._open
        for queue in queues:  # of a headers exchange that is asked for each message
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
            reached = {queue.queue_id for queue in self._reached(vhost, exchange, keys, headers)}
            others = (queue for queue in queues if queue.queue_id not in reached)
            found += [queue.queue_id for queue in others if not granted_on_wire(queue.features)]
        return frozenset(found) if found else NOBODY

    def feeder(self, queue_id: int) -> str | None:
        """Why more may come to a queue than it would let in: a binding on a way to it does not grant it power over all
        that takes it. None if there is none, or no such queue.
        """
        self._look()
        if queue_id not in self._feeders:
            queue = self.topology.queue_by_id(queue_id)
            refusing = () if queue is None or granted_on_wire(queue.features) else self.refusing(queue)
            self._feeders[queue_id] = next((why for _, why in refusing), None)
        return self._feeders[queue_id]

    def _look(self) -> None:
        """Forget what was found if the topology is another one."""
        topology = self.topology
        if topology.version != self._version or topology.users.generation != self._generation:
            self._version, self._generation = topology.version, topology.users.generation
            self._open.clear()
            self._shut.clear()
            self._strong.clear()
            self._feeders.clear()

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

    def _reached(self, vhost: str, exchange: str, keys: tuple[str, ...], headers: Headers) -> tuple[Queue, ...]:
        """The queues that a publish comes to by bindings that grant it alone."""
        known = headers() if callable(headers) else headers or {}
        by = self._granting(vhost, keys, known)
        return self.topology.route(vhost, exchange, keys[0], known, keys[1:], by=by)

    def _granting(
        self, vhost: str, keys: tuple[str, ...], headers: Mapping[str, object]
    ) -> Callable[[str, Destination], bool]:
        """Whether one of the bindings that such a publish takes from an exchange to a destination grants it."""

        def granting(source: str, destination: Destination) -> bool:
            bindings = [each for each in self.topology.bindings_to(vhost, *destination) if each.source == source]
            able = [binding for binding in bindings if self._could_publish(binding, keys)]
            if len(able) in (0, len(bindings)):
                return bool(able)
            exchange = self.topology.exchange(vhost, source)
            assert exchange is not None
            index = INDEXES[exchange.type]()
            for binding in able:
                index.add(binding)
            return any(index.match(key, headers) for key in keys)

        return granting

    def _could_publish(self, binding: Binding, keys: tuple[str, ...]) -> bool:
        """Whether the maker of a binding could publish with these routing keys where it begins."""
        topology, maker = self.topology, binding.maker
        if not _writes(topology, binding):
            return False
        if maker is None or not _is_limited(topology, binding):
            return True
        users = topology.users
        return all(users.may_use_topic(maker, binding.vhost, binding.source, "write", key) for key in keys)

    def refusing(self, queue: Queue) -> Iterator[tuple[str, str]]:
        """The bindings on ways to a queue that do not grant it power over all that takes them: from which exchange each
        is, and why. What policies grant the queue is not asked.
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
