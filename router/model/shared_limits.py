"""Limits over several queues together: which there are for a publish, and over which queues each is.

A policy may say, of an exchange, of a routing key on it, of a user, a vhost or the node, what its queues may hold
together (`sum-…`), or the deepest of them (`deepest-…`). Its queues are: of an exchange, those that it routes to, by
way of others or not; of a pattern of routing keys, those that bindings with such keys lead to; of vhost and node, all;
of a user, those that its publishes go to, which is for the acceptors to see. Queues without power over what comes by
way of an exchange (router/model/grants.py) are none of its, of its routing keys or of a user who publishes to it.
Publishes that have the exchange, the key, … in common are held while the limit is reached, whichever of the queues they
go to.
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
"""By how many kinds of routing keys an exchange may be come to before its bindings are no longer looked at."""

Sort: TypeAlias = Literal["exchange", "routing_key", "user", "vhost", "node"]


class SharedLimit(NamedTuple):
    """One such limit: whose it is, the policy that says so, and the pattern of routing keys where it is about one.

    `shared` is how depths come to one (`SHARED`); `throttle` and `hold` are what it says of those who are held.
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
        """What stays the same as long as it is the same limit, perhaps with other marks."""
        return self.sort, self.vhost, self.name, self.shared, self.policy

    @property
    def user(self) -> int:
        """The key of its user's queues in the gauges, not 0: the same for all processes, and all limits of the user."""
        whose = repr((self.vhost, self.name)).encode("utf-8", "surrogateescape")
        return int.from_bytes(blake2b(whose, digest_size=8).digest(), "little") | 1

    def __str__(self) -> str:
        return owner(self.sort, self.vhost, self.name, self.routing_key)


def owner(sort: str, vhost: str, name: str, routing_key: str) -> str:
    """Whose a limit is, in words."""
    if sort == NODE:
        return "the node"
    if sort == VHOST:
        return f"vhost '{name}'"
    if sort == ROUTING_KEY:
        return f"routing keys {routing_key} of {described(EXCHANGE, name, vhost)}"
    return described(sort, name, vhost)


def counted(shared: str, depths: tuple[int, int, int, int]) -> tuple[int, int]:
    """Messages and bytes that count, of those of all queues and those of the deepest (`Gauges.depths`)."""
    return depths[:2] if shared == SHARED[0] else depths[2:]


def says_something(policy: Policy) -> bool:
    """Whether a policy limits several queues together."""
    return any(key.startswith(f"{shared}-") for key in policy.definition for shared in SHARED)


def shared_limits(
    topology: Topology, vhost: str, exchanges: Iterable[str], routing_key: str, user: str, defaults: FlowDefaults
) -> Iterator[SharedLimit]:
    """Those for a publish that passes these exchanges."""
    for policy, sort, place, name in owners(topology, vhost, exchanges, routing_key, user):
        yield from _said(policy, sort, place, name, defaults)


def owners(
    topology: Topology, vhost: str, exchanges: Iterable[str], routing_key: str, user: str
) -> Iterator[tuple[Policy | None, str, str, str]]:
    """What a publish that passes these exchanges has in common with others: the policy that governs it, sort, vhost
    and name.
    """
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
    """Those of a vhost and of the node."""
    for policy, sort, place, name in _owners_above(topology, vhost):
        yield from _said(policy, sort, place, name, defaults)


def limits_said(
    policy: Policy, sort: str, vhost: str, name: str, topology: Topology, defaults: FlowDefaults
) -> Iterator[SharedLimit]:
    """What a policy says of an owner of that sort, if it is the one that governs it."""
    if is_governing(policy, sort, name, topology):
        yield from _said(policy, sort, vhost, name, defaults)


def is_governing(policy: Policy, sort: str, name: str, topology: Topology) -> bool:
    """Whether a policy is the one that governs an owner of that sort; of routing keys, one that may be."""
    policies = topology.policies(policy.vhost, operator=False)
    return policy in policies and (sort == ROUTING_KEY or policy == governing(policies, sort, name))


def same_limit(limit: SharedLimit, topology: Topology, defaults: FlowDefaults) -> SharedLimit | None:
    """The limit as the policies say it now; None if they do no more."""
    place = "" if limit.sort in (VHOST, NODE) else limit.vhost
    policy = topology.policy(place, limit.policy, operator=False)
    if policy is None or not governs(policy, limit.sort, limit.name):
        return None
    said = limits_said(policy, limit.sort, limit.vhost, limit.name, topology, defaults)
    return next((each for each in said if each.key == limit.key), None)


def queues_of(limit: SharedLimit, topology: Topology) -> list[Queue]:
    """The queues that it is over; of a user none is known here."""
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
    """The limits that a queue is under by way of these exchanges, its vhost and the node."""
    policies = topology.policies(queue.vhost, operator=False)
    found: list[SharedLimit] = []
    for exchange in upstream:
        of_exchange = _said(governing(policies, EXCHANGE, exchange), EXCHANGE, queue.vhost, exchange, defaults)
        found += [limit for limit in of_exchange if queue in queues_of(limit, topology)]
        for policy in policies:
            if governs(policy, ROUTING_KEY, exchange):
                keyed = _said(policy, ROUTING_KEY, queue.vhost, exchange, defaults)
                found += [limit for limit in keyed if queue in queues_of(limit, topology)]
    return [*found, *above(topology, queue.vhost, defaults)]


def _said(policy: Policy | None, sort: str, vhost: str, name: str, defaults: FlowDefaults) -> Iterator[SharedLimit]:
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
    """Which routing keys it is about, "" if it names none."""
    return str(policy.definition.get("routing-key", ""))


def _downstream(limit: SharedLimit, topology: Topology) -> list[Queue]:
    """The queues that bindings lead to, from its exchange; of a pattern of routing keys, with keys that match it."""
    found: dict[str, None] = {}
    for binding in _led_to(limit, topology):
        if binding.kind == "queue":
            found[binding.destination] = None
    queues = (topology.queue(limit.vhost, name) for name in found)
    return [queue for queue in queues if queue is not None and has_power(queue)]


def _led_to(limit: SharedLimit, topology: Topology) -> Iterator[Binding]:
    """The bindings that such publishes may take, by way of other exchanges or not, if they grant power to queues."""
    waiting = [(limit.name, Keys(limit.routing_key))]
    passed = {limit.name: {waiting[0][1]}}
    while waiting:
        source, keys = waiting.pop()
        exchange = topology.exchange(limit.vhost, source)
        assert exchange is not None
        for binding in topology.bindings_from(limit.vhost, source):
            onward = keys.through(binding, exchange.type)
            if onward is None or not grants(topology, binding):
                continue
            yield binding
            if binding.kind == "exchange":
                known = passed.setdefault(binding.destination, set())
                # Of exchanges bound to each other in so many ways it may be any key.
                onward = onward if len(known) < WAYS_MAX else Keys("")
                if onward not in known:
                    known.add(onward)
                    waiting.append((binding.destination, onward))
