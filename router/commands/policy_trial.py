"""The trial of a policy: the changes that it would make, without setting it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from penstock.limits.features import UNCONSUMED, granted_on_wire, unprivileged_reason_on_wire
from penstock.limits.watermarks import FlowDefaults
from router.authority.governing import governed_queue
from router.commands.flow import shown_limit
from router.model.grants import Grants, has_power
from router.model.policies import governs
from router.model.policy_keys import EXCHANGE, NODE, ROUTING_KEY, USER, VHOST
from router.model.rates import RateLimit, limits_rates, rate_of, rate_of_policy
from router.model.records import Policy, Queue
from router.model.shared_limits import limits_of_policy, says_something
from router.model.topology import Topology

Owner: TypeAlias = tuple[str, str, str]
"""The sort, vhost and name of an owner of limits that is not a queue."""


def try_policy(policy: Policy, topology: Topology, defaults: FlowDefaults) -> dict[str, Any]:
    """Return the queues that may stop producers and whose limits the policy would change, and the limits over several
    queues and of rates that it would make or change:

    {queues: [{queue_id, slot, vhost, name, limits (`QueueLimits.to_wire`)}],
     shared: [{sort, vhost, name, routing_key, …} (`router.commands.flow.shown_limit`)],
     rates: [{sort, vhost, name, routing_key, queue_id, messages, bytes, limit}],
     powers: [{queue_id, vhost, name, weak, refusing, anew}]}

    Messages and bytes (bytes) of a rate are per second, 0 if it has no such limit; `limit` is the rate in words.

    `powers` has these queues and those whose power over publishes would change (router/model/grants.py): `weak` says
    why a queue would have none even through bindings that grant it, "" if it would; `refusing` are the bindings that do
    not grant it, as [exchange, why], none if a policy would grant it. `anew`: the present effect of the queue does not
    show which bindings grant it power.

    The policy has been checked. The topology is unchanged afterwards.
    """
    known = topology.policy(policy.vhost, policy.name, operator=policy.operator)
    places = [policy.vhost] if policy.vhost else topology.vhosts()
    topology.apply(policy.change())
    changed: list[tuple[Queue, Queue]] = []
    try:
        queues = [queue for place in places for queue in topology.queues_in(place)]
        after = ((queue, governed_queue(queue, topology, defaults)) for queue in queues)
        changed += ((before, now) for before, now in after if now != before)
        for _, now in changed:
            topology.apply(now.change())
        owners = list(_owners(policy, places, topology)) if says_something(policy) or limits_rates(policy) else []
        stopping = [now for before, now in changed if _may_stop(now) and _stops_others(before, now)]
        slowing = [(now, limit) for before, now in changed if (limit := _changed_rate(before, now)) is not None]
        reported = {queue.queue_id for queue in (*stopping, *(queue for queue, _ in slowing))}
        grants = Grants(topology)
        return {
            "queues": [_shown(queue) for queue in stopping],
            "shared": _shared(policy, owners, topology, defaults),
            "rates": [_rate(limit) for limit in (*(limit for _, limit in slowing), *_rates(policy, owners, topology))],
            "powers": [
                _power(before, now, grants)
                for before, now in changed
                if now.queue_id in reported or _standing(now) != _standing(before)
            ],
        }
    finally:
        for before, _ in changed:
            topology.apply(before.change())
        topology.apply(policy.change_gone() if known is None else known.change())


def _may_stop(queue: Queue) -> bool:
    """Whether a queue may stop its producers, or may once it is consumed from."""
    return unprivileged_reason_on_wire(queue.features) in (None, UNCONSUMED)


def _standing(queue: Queue) -> tuple[bool, bool]:
    """Return whether a queue has power over publishes by policy, and whether it has it through granting bindings."""
    return granted_on_wire(queue.features), has_power(queue)


def _stops_others(before: Queue, now: Queue) -> bool:
    """Whether the marks of a queue, or the producers that they hold, would change."""
    return now.limits != before.limits or not _may_stop(before) or _gains(before, now)


def _changed_rate(before: Queue, now: Queue) -> RateLimit | None:
    """Return the rate limit of a queue if the limit, or the producers that it holds, would change."""
    limit = rate_of(now)
    return None if limit == rate_of(before) and not _gains(before, now) else limit


def _gains(before: Queue, now: Queue) -> bool:
    return any(after and not was for was, after in zip(_standing(before), _standing(now), strict=True))


def _shown(queue: Queue) -> dict[str, Any]:
    return {
        "queue_id": queue.queue_id,
        "slot": queue.slot,
        "vhost": queue.vhost,
        "name": queue.name,
        "limits": queue.limits,
    }


def _power(before: Queue, now: Queue, grants: Grants) -> dict[str, Any]:
    granted, able = _standing(now)
    was_granted, was_able = _standing(before)
    return {
        "queue_id": now.queue_id,
        "vhost": now.vhost,
        "name": now.name,
        "weak": "" if able else str(unprivileged_reason_on_wire(now.features)),
        "refusing": [] if granted else [list(each) for each in grants.refusing_bindings(now)],
        "anew": was_granted or not was_able,
    }


def _owners(policy: Policy, places: list[str], topology: Topology) -> Iterator[Owner]:
    """Return the owners other than queues that a policy governs, in a topology where it is set already."""
    owners: list[Owner] = [(NODE, "", "")]
    owners += [(VHOST, place, place) for place in places]
    owners += [(USER, policy.vhost, user.name) for user in topology.users.all()]
    if policy.vhost:
        names = [exchange.name for exchange in topology.exchanges_in(policy.vhost) if exchange.name]
        owners += [(sort, policy.vhost, name) for sort in (EXCHANGE, ROUTING_KEY) for name in names]
    return (owner for owner in owners if governs(policy, owner[0], owner[2]))


def _shared(policy: Policy, owners: list[Owner], topology: Topology, defaults: FlowDefaults) -> list[dict[str, Any]]:
    """Return the limits over several queues that a policy sets."""
    return [
        {
            "sort": limit.sort,
            "vhost": limit.vhost,
            "name": limit.name,
            "routing_key": limit.routing_key,
            **shown_limit(limit, topology),
        }
        for sort, vhost, name in owners
        for limit in limits_of_policy(policy, sort, vhost, name, topology, defaults)
    ]


def _rates(policy: Policy, owners: list[Owner], topology: Topology) -> Iterator[RateLimit]:
    for sort, vhost, name in owners:
        limit = rate_of_policy(policy, sort, vhost, name, topology)
        if limit is not None:
            yield limit


def _rate(limit: RateLimit) -> dict[str, Any]:
    fields = ("sort", "vhost", "name", "routing_key", "queue_id", "messages")
    return {**{field: getattr(limit, field) for field in fields}, "bytes": limit.nbytes, "limit": str(limit)}
