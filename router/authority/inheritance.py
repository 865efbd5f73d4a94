"""What a queue inherits from the policies of the exchanges that route to it, of its vhost and of the node."""

from __future__ import annotations

from typing import Any

from penstock.limits.queue_limits import Level
from router.model.policies import governing, policy_for
from router.model.policy_keys import EXCHANGE, KEYS, NODE, VHOST, spelled_out
from router.model.records import DEFAULT_EXCHANGE, Policy, Queue
from router.model.topology import Topology


def levels_of(queue: Queue, topology: Topology) -> list[Level]:
    """The nearest first. Of several exchanges that whose policy has the highest priority, of equals the first by name.

    An exchange's policy counts if it applies to exchanges alone: RabbitMQ's that apply to all mean something else.
    """
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


def inherited(policy: Policy) -> dict[str, Any]:
    """What a policy says for queues that say nothing themselves, as arguments of a declaration."""
    said = spelled_out(policy.definition).items()
    return {KEYS[key].argument: value for key, value in said if key in KEYS and KEYS[key].inherited}


def hands_down(policy: Policy) -> bool:
    """Whether it may say something for the queues of an exchange, of a vhost or of the node."""
    return policy.apply_to in ("exchanges", "vhosts", "node") and bool(inherited(policy))


def exchanges_hand_down(vhost: str, topology: Topology) -> bool:
    """Whether it matters which exchanges route to which queue."""
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
    """The exchanges with bindings that lead to a queue, by way of others or not; the default exchange is none."""
    passed: dict[str, None] = {}
    waiting = [binding.source for binding in topology.bindings_to(queue.vhost, "queue", queue.name)]
    while waiting:
        name = waiting.pop()
        if name not in passed and name != DEFAULT_EXCHANGE:
            passed[name] = None
            waiting += [binding.source for binding in topology.bindings_to(queue.vhost, EXCHANGE, name)]
    return list(passed)
