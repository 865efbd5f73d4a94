"""What a policy would change if it were set, without setting it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from penstock.features import UNCONSUMED, QueueFeatures, granted_on_wire
from penstock.watermarks import FlowDefaults
from router.flow_commands import shown
from router.governing import governed_queue
from router.grants import Grants
from router.policies import governs
from router.policy_keys import EXCHANGE, NODE, ROUTING_KEY, USER, VHOST
from router.rates import RateLimit, limits_rates, rate_of, rate_said
from router.records import Policy, Queue
from router.shared_limits import limits_said, says_something
from router.topology import Topology

Owner: TypeAlias = tuple[str, str, str]
"""Sort, vhost and name of what is no queue and has limits."""


def tried(policy: Policy, topology: Topology, defaults: FlowDefaults) -> dict[str, Any]:
    """The queues that may stop producers and whose limits would be others, the limits over several queues and of rates
    that it would make or change:

    {queues: [{queue_id, slot, vhost, name, limits (`QueueLimits.to_wire`), loses_grant, refusing}],
     shared: [{sort, vhost, name, routing_key, …} (`flow_commands.shown`)],
     rates: [{sort, vhost, name, routing_key, queue_id, messages, octets, limit}]}

    Messages and octets of a rate are those a second, 0 where it has no such limit; `limit` says it in words.

    `refusing` are bindings that do not grant a queue what it does to publishers, as [exchange, why]; none where a
    policy would grant it. `loses_grant`: one does now, and would not any more.

    The policy has been checked. The topology is afterwards what it was.
    """
    known = topology.policy(policy.vhost, policy.name, operator=policy.operator)
    places = [policy.vhost] if policy.vhost else topology.vhosts()
    topology.apply(policy.change())
    try:
        queues = [queue for place in places for queue in topology.queues_in(place)]
        after = [(queue, governed_queue(queue, topology, defaults)) for queue in queues]
        grants = Grants(topology)
        owners = list(_owners(policy, places, topology)) if says_something(policy) or limits_rates(policy) else []
        changed = [(before, now) for before, now in after if _may_stop(now) and _differs(before, now)]
        return {
            "queues": [_shown(before, now, grants) for before, now in changed],
            "shared": _shared(policy, owners, topology, defaults),
            "rates": [_rate(limit) for limit in [*_rates_of_queues(after), *_rates(policy, owners, topology)]],
        }
    finally:
        topology.apply(policy.change_gone() if known is None else known.change())


def _may_stop(queue: Queue) -> bool:
    """Whether it stops its producers when it is deep enough: a queue that nobody has consumed from yet may soon."""
    return QueueFeatures.from_wire(queue.features).stranger in (None, UNCONSUMED)


def _differs(before: Queue, now: Queue) -> bool:
    return now.limits != before.limits or not _may_stop(before)


def _shown(before: Queue, queue: Queue, grants: Grants) -> dict[str, Any]:
    granted = granted_on_wire(queue.features)
    return {
        "queue_id": queue.queue_id,
        "slot": queue.slot,
        "vhost": queue.vhost,
        "name": queue.name,
        "limits": queue.limits,
        "loses_grant": granted_on_wire(before.features) and not granted,
        "refusing": [] if granted else [list(each) for each in grants.refusing(queue)],
    }


def _owners(policy: Policy, places: list[str], topology: Topology) -> Iterator[Owner]:
    """What else than queues a policy governs, in a topology where it is set already."""
    owners: list[Owner] = [(NODE, "", "")]
    owners += [(VHOST, place, place) for place in places]
    owners += [(USER, policy.vhost, user.name) for user in topology.users.all()]
    if policy.vhost:
        names = [exchange.name for exchange in topology.exchanges_in(policy.vhost) if exchange.name]
        owners += [(sort, policy.vhost, name) for sort in (EXCHANGE, ROUTING_KEY) for name in names]
    return (owner for owner in owners if governs(policy, owner[0], owner[2]))


def _shared(policy: Policy, owners: list[Owner], topology: Topology, defaults: FlowDefaults) -> list[dict[str, Any]]:
    """The limits that a policy makes over several queues."""
    return [
        {
            "sort": limit.sort,
            "vhost": limit.vhost,
            "name": limit.name,
            "routing_key": limit.routing_key,
            **shown(limit, topology),
        }
        for sort, vhost, name in owners
        for limit in limits_said(policy, sort, vhost, name, topology, defaults)
    ]


def _rates_of_queues(after: list[tuple[Queue, Queue]]) -> Iterator[RateLimit]:
    """Those that would be others."""
    for before, now in after:
        limit = rate_of(now)
        if limit is not None and limit != rate_of(before):
            yield limit


def _rates(policy: Policy, owners: list[Owner], topology: Topology) -> Iterator[RateLimit]:
    for sort, vhost, name in owners:
        limit = rate_said(policy, sort, vhost, name, topology)
        if limit is not None:
            yield limit


def _rate(limit: RateLimit) -> dict[str, Any]:
    fields = ("sort", "vhost", "name", "routing_key", "queue_id", "messages", "octets")
    return {**{field: getattr(limit, field) for field in fields}, "limit": str(limit)}
