"""What a policy would change if it were set, without setting it."""

from __future__ import annotations

from typing import Any

from penstock.watermarks import FlowDefaults
from router.flow_commands import shown
from router.governing import governed_queue
from router.policies import governs
from router.policy_keys import EXCHANGE, NODE, ROUTING_KEY, USER, VHOST
from router.records import Policy, Queue
from router.shared_limits import limits_said, says_something
from router.topology import Topology


def tried(policy: Policy, topology: Topology, defaults: FlowDefaults) -> dict[str, Any]:
    """The queues whose limits would be others, and the limits over several queues that it would make or change:

    {queues: [{queue_id, slot, vhost, name, limits (`QueueLimits.to_wire`)}],
     shared: [{sort, vhost, name, routing_key, …} (`flow_commands.shown`)]}

    The policy has been checked. The topology is afterwards what it was.
    """
    known = topology.policy(policy.vhost, policy.name, operator=policy.operator)
    places = [policy.vhost] if policy.vhost else topology.vhosts()
    topology.apply(policy.change())
    try:
        queues = [queue for place in places for queue in topology.queues_in(place)]
        after = ((queue, governed_queue(queue, topology, defaults)) for queue in queues)
        return {
            "queues": [_shown(now) for before, now in after if now.limits != before.limits],
            "shared": _shared(policy, places, topology, defaults) if says_something(policy) else [],
        }
    finally:
        topology.apply(policy.change_gone() if known is None else known.change())


def _shown(queue: Queue) -> dict[str, Any]:
    return {
        "queue_id": queue.queue_id,
        "slot": queue.slot,
        "vhost": queue.vhost,
        "name": queue.name,
        "limits": queue.limits,
    }


def _shared(policy: Policy, places: list[str], topology: Topology, defaults: FlowDefaults) -> list[dict[str, Any]]:
    """The limits that a policy makes, in a topology where it is set already."""
    owners: list[tuple[str, str, str]] = [(NODE, "", "")]
    owners += [(VHOST, place, place) for place in places]
    owners += [(USER, policy.vhost, user.name) for user in topology.users.all()]
    if policy.vhost:
        names = [exchange.name for exchange in topology.exchanges_in(policy.vhost) if exchange.name]
        owners += [(sort, policy.vhost, name) for sort in (EXCHANGE, ROUTING_KEY) for name in names]
    return [
        {
            "sort": limit.sort,
            "vhost": limit.vhost,
            "name": limit.name,
            "routing_key": limit.routing_key,
            **shown(limit, topology),
        }
        for sort, vhost, name in owners
        if governs(policy, sort, name)
        for limit in limits_said(policy, sort, vhost, name, topology, defaults)
    ]
