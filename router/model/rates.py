"""Limits of rates: how many messages, and bytes of bodies, may be published a second.

A policy of an exchange, of routing keys on it, of a user, a vhost or the node limits the publishes that share that
owner (as in `router.model.shared_limits`); the arguments or the policy of a queue limit publishes to that queue. A
message counts once towards each limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from penstock.limits.features import QueueFeatures, milliseconds, nbytes
from router.model.policy_keys import RATES
from router.model.records import Policy, Queue
from router.model.shared_limits import is_governing, key_pattern, owner, owners
from router.model.topology import Topology

BURST_MS = 1000
"""For how long an unused rate may be saved up unless a burst is given."""
QUEUE = "queue"


class RateLimit(NamedTuple):
    """A limit of a rate: its owner, messages and bytes a second (0: no such limit), and milliseconds of burst."""

    sort: str
    vhost: str
    name: str
    messages: int
    nbytes: int
    burst_ms: int
    routing_key: str = ""
    queue_id: int = 0

    @property
    def bucket(self) -> int:
        """The key of the limit's bucket in the gauges, not 0: the same in all processes, whatever the rate."""
        whose = repr((self.sort, self.vhost, self.name, self.routing_key, self.queue_id)).encode(
            "utf-8", "surrogateescape"
        )
        return int.from_bytes(blake2b(whose, digest_size=8).digest(), "little") | 1

    def __str__(self) -> str:
        said = [f"{self.messages} messages"] if self.messages else []
        said += [f"{self.nbytes} bytes"] if self.nbytes else []
        return f"rate of {owner(self.sort, self.vhost, self.name, self.routing_key)}: {' and '.join(said)} a second"


def limits_rates(policy: Policy) -> bool:
    """Whether a policy limits a rate, whatever it applies to."""
    return not RATES.keys().isdisjoint(policy.definition)


def rate_limits(
    topology: Topology, vhost: str, exchanges: Iterable[str], routing_key: str, user: str
) -> Iterator[RateLimit]:
    """Return the limits of rates on a publish that passes these exchanges, except those of queues."""
    for policy, sort, place, name in owners(topology, vhost, exchanges, routing_key, user):
        limit = None if policy is None else _limit_of(policy, sort, place, name)
        if limit is not None:
            yield limit


def rate_of_policy(policy: Policy, sort: str, vhost: str, name: str, topology: Topology) -> RateLimit | None:
    """Return the limit that a policy sets for an owner that is not a queue; None if another policy governs it."""
    return _limit_of(policy, sort, vhost, name) if is_governing(policy, sort, name, topology) else None


def rate_of(queue: Queue) -> RateLimit | None:
    """Return the limit of a queue, None if it has none."""
    features = QueueFeatures.from_wire(queue.features)
    count, size = features.max_rate or 0, features.max_rate_bytes or 0
    if not count and not size:
        return None
    burst = features.rate_burst or BURST_MS
    return RateLimit(QUEUE, queue.vhost, queue.name, count, size, burst, queue_id=queue.queue_id)


def _limit_of(policy: Policy, sort: str, vhost: str, name: str) -> RateLimit | None:
    count = policy.definition.get("max-rate") or 0
    size = nbytes(policy.definition.get("max-rate-bytes")) or 0
    burst = milliseconds(policy.definition.get("rate-burst")) or BURST_MS
    return RateLimit(sort, vhost, name, count, size, burst, key_pattern(policy)) if count or size else None
