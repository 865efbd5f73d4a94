"""Limits over several queues: which of them apply to a publish, and which queues each of them covers.

A policy may limit the depth of the queues of an owner (an exchange, routing keys on it, a user, a vhost or the node):
their sum (`sum-…`), or the deepest of them (`deepest-…`). The queues of an exchange are those that it routes to,
directly or through other exchanges; of a pattern of routing keys, those that bindings with such keys lead to; of a
vhost and the node, all; of a user, those that its publishes go to, which only acceptors know. A queue without power
over publishes through an exchange (router/model/grants.py) does not count for the exchange, its routing keys or a user
who publishes to it. While the limit is reached, publishes of the owner are held, whichever of the queues they go to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

from penstock.limits.ladder import FOREVER
from penstock.limits.means import AUTO
from penstock.limits.queue_limits import OVERFLOW, asked_limits
from penstock.limits.watermarks import FlowDefaults, Marks
from penstock.text.patterns import pattern
from router.model.grants import grants, has_power
from router.model.key_overlap import Keys
from router.model.policies import governing, governs
from router.model.policy_keys import EXCHANGE, LIMITS, NODE, ROUTING_KEY, SHARED, USER, VHOST, spelled_out
from router.model.records import DEFAULT_EXCHANGE, Binding, Policy, Queue, described
from router.model.topology import Topology

WAYS_MAX = 16
"""The number of sets of routing keys tracked per exchange; beyond it, the exchange counts as reached by any key."""

Sort: TypeAlias = Literal["exchange", "routing_key", "user", "vhost", "node"]


class SharedLimit(NamedTuple):
    """A limit over several queues: its owner, its policy, and the pattern of routing keys if it has one.

    `shared` is how depths become one (`SHARED`); `throttle` and `hold` are its settings for the producers it holds.
    """

    sort: str
    vhost: str
    name: str
    shared: str
    policy: str
    marks: Marks
    routing_key: str = ""
    throttle: str = AUTO
    hold: str = FOREVER

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the limit, which other marks do not change."""
        return self.sort, self.vhost, self.name, self.shared, self.policy

    @property
    def user(self) -> int:
        """The key of the user's queues in the gauges, not 0: the same in all processes, for all limits of the user."""
        whose = repr((self.vhost, self.name)).encode("utf-8", "surrogateescape")
        return int.from_bytes(blake2b(whose, digest_size=8).digest(), "little") | 1

    def __str__(self) -> str:
        return owner(self.sort, self.vhost, self.name, self.routing_key)


def owner(sort: str, vhost: str, name: str, routing_key: str) -> str:
    """Return the owner of a limit in words."""
    if sort == NODE:
        return "the node"
    if sort == VHOST:
        return f"vhost '{name}'"
    if sort == ROUTING_KEY:
        return f"routing keys {routing_key} of {described(EXCHANGE, name, vhost)}"
    return described(sort, name, vhost)


def counted(shared: str, depths: tuple[int, int, int, int]) -> tuple[int, int]:
    """Return the messages and bytes that count: of all queues together, or of the deepest (`Gauges.depths`)."""
    return depths[:2] if shared == SHARED[0] else depths[2:]


def says_something(policy: Policy) -> bool:
    """Whether a policy limits several queues together."""
    return any(key.startswith(f"{shared}-") for key in policy.definition for shared in SHARED)


def shared_limits(
    topology: Topology, vhost: str, exchanges: Iterable[str], routing_key: str, user: str, defaults: FlowDefaults
) -> Iterator[SharedLimit]:
    """Return the limits on a publish that passes these exchanges."""
    for policy, sort, place, name in owners(topology, vhost, exchanges, routing_key, user):
        yield from _limits_of(policy, sort, place, name, defaults)


def owners(
    topology: Topology, vhost: str, exchanges: Iterable[str], routing_key: str, user: str
) -> Iterator[tuple[Policy | None, str, str, str]]:
    """Return the owners of a publish that passes these exchanges: governing policy, sort, vhost and name of each."""
    policies = topology.policies(vhost, operator=False)
    by_key = [policy for policy in policies if policy.apply_to == "routing_keys"]
    for exchange in exchanges:
        if exchange != DEFAULT_EXCHANGE:
            yield governing(policies, EXCHANGE, exchange), EXCHANGE, vhost, exchange
            keyed = [policy for policy in by_key if pattern(key_pattern(policy)).matches(routing_key)]
            yield governing(keyed, ROUTING_KEY, exchange), ROUTING_KEY, vhost, exchange
    yield governing(policies, USER, user), USER, vhost, user
    yield from _owners_above(topology, vhost)


def _owners_above(topology: Topology, vhost: str) -> Iterator[tuple[Policy | None, str, str, str]]:
    policies = topology.policies("", operator=False)
    yield governing(policies, VHOST, vhost), VHOST, vhost, vhost
    yield governing(policies, NODE, ""), NODE, "", ""


def above(topology: Topology, vhost: str, defaults: FlowDefaults) -> Iterator[SharedLimit]:
    """Return the limits of a vhost and of the node."""
    for policy, sort, place, name in _owners_above(topology, vhost):
        yield from _limits_of(policy, sort, place, name, defaults)


def limits_of_policy(
    policy: Policy, sort: str, vhost: str, name: str, topology: Topology, defaults: FlowDefaults
) -> Iterator[SharedLimit]:
    """Return the limits that a policy sets for an owner; none if another policy governs it."""
    if is_governing(policy, sort, name, topology):
        yield from _limits_of(policy, sort, vhost, name, defaults)


def is_governing(policy: Policy, sort: str, name: str, topology: Topology) -> bool:
    """Whether a policy governs an owner of that sort; for routing keys, whether it may govern some of them."""
    policies = topology.policies(policy.vhost, operator=False)
    return policy in policies and (sort == ROUTING_KEY or policy == governing(policies, sort, name))


def same_limit(limit: SharedLimit, topology: Topology, defaults: FlowDefaults) -> SharedLimit | None:
    """Return the limit by the present policies; None if they no longer set it."""
    place = "" if limit.sort in (VHOST, NODE) else limit.vhost
    policy = topology.policy(place, limit.policy, operator=False)
    if policy is None or not governs(policy, limit.sort, limit.name):
        return None
    said = limits_of_policy(policy, limit.sort, limit.vhost, limit.name, topology, defaults)
    return next((each for each in said if each.key == limit.key), None)


def queues_of(limit: SharedLimit, topology: Topology) -> list[Queue]:
    """Return the queues that a limit covers; none for a user, whose queues only acceptors know."""
    if limit.sort == NODE:
        return list(topology.queues())
    if not topology.has_vhost(limit.vhost):
        return []
    if limit.sort == VHOST:
        return topology.queues_in(limit.vhost)
    if limit.sort == USER or topology.exchange(limit.vhost, limit.name) is None:
        return []
    return _downstream(limit, topology)


def covering(queue: Queue, upstream: Iterable[str], topology: Topology, defaults: FlowDefaults) -> list[SharedLimit]:
    """Return the limits that cover a queue through these exchanges, its vhost and the node."""
    policies = topology.policies(queue.vhost, operator=False)
    found: list[SharedLimit] = []
    for exchange in upstream:
        of_exchange = _limits_of(governing(policies, EXCHANGE, exchange), EXCHANGE, queue.vhost, exchange, defaults)
        found += [limit for limit in of_exchange if queue in queues_of(limit, topology)]
        for policy in policies:
            if governs(policy, ROUTING_KEY, exchange):
                keyed = _limits_of(policy, ROUTING_KEY, queue.vhost, exchange, defaults)
                found += [limit for limit in keyed if queue in queues_of(limit, topology)]
    return [*found, *above(topology, queue.vhost, defaults)]


def _limits_of(
    policy: Policy | None, sort: str, vhost: str, name: str, defaults: FlowDefaults
) -> Iterator[SharedLimit]:
    if policy is None or not says_something(policy):
        return
    definition = spelled_out(policy.definition)
    for shared in SHARED:
        given = {argument: definition[key] for part, argument in LIMITS.items()
                 if (key := f"{shared}-{part}") in definition}  # fmt: skip
        marks = asked_limits({**given, OVERFLOW: "flow"}, defaults.only_marks(), adapt=True).marks
        if marks:
            throttle, hold = definition.get("throttle", AUTO), definition.get("hold", FOREVER)
            yield SharedLimit(sort, vhost, name, shared, policy.name, marks, key_pattern(policy), throttle, hold)


def key_pattern(policy: Policy) -> str:
    """Return the pattern of routing keys of a policy, "" if it has none."""
    return str(policy.definition.get("routing-key", ""))


def _downstream(limit: SharedLimit, topology: Topology) -> list[Queue]:
    """Return the queues that bindings from the limit's exchange lead to, with keys that match its pattern."""
    found: dict[str, None] = {}
    for binding in _led_to(limit, topology):
        if binding.kind == "queue":
            found[binding.destination] = None
    queues = (topology.queue(limit.vhost, name) for name in found)
    return [queue for queue in queues if queue is not None and has_power(queue)]


def _led_to(limit: SharedLimit, topology: Topology) -> Iterator[Binding]:
    """Return the bindings that the limit's publishes may take, directly or through other exchanges, and that grant
    power to queues.
    """
    waiting = [(limit.name, Keys(limit.routing_key))]
    passed = {limit.name: {waiting[0][1]}}
    while waiting:
        source, keys = waiting.pop()
        exchange = topology.exchange(limit.vhost, source)
        assert exchange is not None
        for binding in topology.bindings_from(limit.vhost, source):
            onward = keys.through(binding, exchange.routing_type)
            if onward is None or not grants(topology, binding):
                continue
            yield binding
            if binding.kind == "exchange":
                known = passed.setdefault(binding.destination, set())
                # Exchanges bound to each other in very many ways are taken to be reached by any key.
                onward = onward if len(known) < WAYS_MAX else Keys("")
                if onward not in known:
                    known.add(onward)
                    waiting.append((binding.destination, onward))
