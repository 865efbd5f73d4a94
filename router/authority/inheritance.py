"""The settings that a queue inherits from the policies of the exchanges that route to it, its vhost and the node."""

from __future__ import annotations

from typing import Any

from penstock.limits.queue_limits import Level
from penstock.limits.watermarks import FlowDefaults
from router.model.delaying import is_delay_queue
from router.model.policies import governing, policy_for
from router.model.policy_keys import EXCHANGE, KEYS, NODE, VHOST, spelled_out
from router.model.records import DEFAULT_EXCHANGE, Policy, Queue
from router.model.topology import Topology


def levels_of(queue: Queue, topology: Topology) -> list[Level]:
    """Return the levels of inherited settings, the nearest first: exchanges by priority of their policies, then names.

    An exchange's policy counts only if it applies to exchanges alone: RabbitMQ's `all` means something else. A delay
    queue inherits nothing: limits that suit queues with consumers do not suit messages that wait for hours.
    """
    if is_delay_queue(queue.name):
        return []
    levels = [
        Level(f"policy '{policy.name}' of exchange '{exchange}'", arguments)
        for policy, exchange, arguments in _of_exchanges(queue, topology)
    ]
    for sort, name in ((VHOST, queue.vhost), (NODE, "")):
        policy = policy_for(topology, "", sort, name)
        if policy is not None and (arguments := inherited(policy)):
            what = f"vhost '{name}'" if sort == VHOST else "the node"
            levels.append(Level(f"policy '{policy.name}' of {what}", arguments))
    return levels


def defaults_for(queue: Queue, defaults: FlowDefaults) -> FlowDefaults:
    """Return the node's defaults for a queue: for a delay queue without limits."""
    return defaults.only_marks() if is_delay_queue(queue.name) else defaults


def inherited(policy: Policy) -> dict[str, Any]:
    """Return a policy's settings for queues without their own, as arguments of a declaration."""
    said = spelled_out(policy.definition).items()
    return {KEYS[key].argument: value for key, value in said if key in KEYS and KEYS[key].inherited}


def hands_down(policy: Policy) -> bool:
    """Whether the queues of an exchange, a vhost or the node may inherit from a policy."""
    return policy.apply_to in ("exchanges", "vhosts", "node") and bool(inherited(policy))


def exchanges_hand_down(vhost: str, topology: Topology) -> bool:
    """Whether queues of a vhost may inherit from exchanges, so that it matters which exchanges route to them."""
    return any(policy.apply_to == "exchanges" and hands_down(policy)
               for policy in topology.policies(vhost, operator=False))  # fmt: skip


def _of_exchanges(queue: Queue, topology: Topology) -> list[tuple[Policy, str, dict[str, Any]]]:
    policies = [policy for policy in topology.policies(queue.vhost, operator=False) if policy.apply_to == "exchanges"]
    if not policies:
        return []
    found = []
    for exchange in upstream(queue, topology):
        policy = governing(policies, EXCHANGE, exchange)
        if policy is not None and (arguments := inherited(policy)):
            found.append((policy, exchange, arguments))
    return sorted(found, key=lambda each: (-each[0].priority, each[0].name, each[1]))


def upstream(queue: Queue, topology: Topology) -> list[str]:
    """Return the exchanges that route to a queue, directly or through others, without the default exchange."""
    passed: dict[str, None] = {}
    waiting = [binding.source for binding in topology.bindings_to(queue.vhost, "queue", queue.name)]
    while waiting:
        name = waiting.pop()
        if name not in passed and name != DEFAULT_EXCHANGE:
            passed[name] = None
            waiting += [binding.source for binding in topology.bindings_to(queue.vhost, EXCHANGE, name)]
    return list(passed)
