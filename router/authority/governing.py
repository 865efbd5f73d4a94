"""Policies applied: the records of exchanges and queues with their policies' settings, updated when policies change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from penstock.bus import pack
from penstock.limits.features import QueueFeatures
from penstock.limits.queue_limits import Level, decided
from penstock.limits.watermarks import FlowDefaults
from router.authority.inheritance import defaults_for, exchanges_hand_down, hands_down, levels_of
from router.authority.ledger import Ledger
from router.authority.queue_arguments import queue_type
from router.authority.standing import Standing, standing_of
from router.model.policies import combined, effective, governs, policy_for
from router.model.policy_keys import EXCHANGE, KEYS
from router.model.records import DEFAULT_EXCHANGE, Exchange, Policy, Queue
from router.model.topology import Topology


def governed_queue(queue: Queue, topology: Topology, defaults: FlowDefaults) -> Queue:
    """Return the queue with the limits and features of its arguments, which have been checked, and its policies."""
    sort = queue_type(queue.arguments)
    policy, operator = policies_of(queue.vhost, sort, queue.name, topology)
    arguments = effective(queue.arguments, sort, policy, operator)
    levels = levels_of(queue, topology)
    defaults = defaults_for(queue, defaults)
    standing = standing_of(queue, policy, operator, levels)
    inherited = tuple(PackedArguments(level.arguments) for level in levels)
    limits, features = _decided(PackedArguments(arguments), inherited, standing, defaults)
    names = policy.name if policy else None, operator.name if operator else None
    if (queue.limits, queue.features, queue.policy, queue.operator_policy) == (limits, features, *names):
        return queue
    return replace(queue, limits=limits, features=features, policy=names[0], operator_policy=names[1])


class PackedArguments:
    """Arguments that compare by their encoding on the wire."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self._packed = pack(arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedArguments) and self._packed == other._packed

    def __hash__(self) -> int:
        return hash(self._packed)


@lru_cache(maxsize=1024)
def _decided(
    own: PackedArguments, levels: tuple[PackedArguments, ...], standing: Standing, defaults: FlowDefaults
) -> tuple[list[Any], list[Any]]:
    """Decide on limits and features, as on the wire. Queues with equal arguments share the results, which are cached:
    nobody modifies them.
    """
    inherited = [Level("", level.arguments) for level in levels]
    decision = decided(own.arguments, defaults, adapt=True, levels=inherited)
    features = replace(
        QueueFeatures.from_arguments(own.arguments),
        throttle=decision.throttle,
        hold=decision.hold,
        essential=standing.essential,
        unprivileged_reason=standing.unprivileged_reason,
        granted=standing.granted,
        chosen=standing.chosen,
    )
    return decision.limits.to_wire(), features.to_wire()


def governed_exchange(exchange: Exchange, topology: Topology) -> Exchange:
    """Return the exchange with the alternate exchange of its policy. No policy governs the default exchange."""
    if exchange.name == DEFAULT_EXCHANGE:
        return exchange
    policy, _ = policies_of(exchange.vhost, EXCHANGE, exchange.name, topology)
    alternate = policy.definition.get("alternate-exchange") if policy else None
    return replace(exchange, policy=policy.name if policy else None, policy_alternate=alternate)


def policies_of(vhost: str, sort: str, name: str, topology: Topology) -> tuple[Policy | None, Policy | None]:
    """Return the policy and the operator policy that govern an exchange (sort `EXCHANGE`) or a queue of that type."""
    policy, operator = (policy_for(topology, vhost, sort, name, operator) for operator in (False, True))
    return policy, operator


# Changes


def set_policy(ledger: Ledger, policy: Policy, defaults: FlowDefaults) -> None:
    """Make a checked policy, or replace the one of that name, and update the exchanges and queues that it governs."""
    before = ledger.topology.policy(policy.vhost, policy.name, operator=policy.operator)
    if before is None or before.change() != policy.change():
        ledger.record(policy.change(), durable=True)
        _govern(ledger, [policy] if before is None else [before, policy], defaults)


def delete_policy(ledger: Ledger, policy: Policy, defaults: FlowDefaults) -> None:
    """Delete a policy, and update the exchanges and queues that it governed."""
    ledger.record(policy.change_gone(), durable=True)
    _govern(ledger, [policy], defaults)


def _govern(ledger: Ledger, changed: list[Policy], defaults: FlowDefaults) -> None:
    """Update the exchanges and queues that the changed policies, of one vhost or of the node, may govern."""
    topology, place = ledger.topology, changed[0].vhost
    for vhost in [place] if place else topology.vhosts():
        for exchange in topology.exchanges_in(vhost):
            if any(governs(policy, EXCHANGE, exchange.name) for policy in changed):
                governed = governed_exchange(exchange, topology)
                if governed != exchange:
                    ledger.add_exchange(governed)
        concerns_all = any(hands_down(policy) for policy in changed)
        for queue in topology.queues_in(vhost):
            if concerns_all or any(governs(policy, queue_type(queue.arguments), queue.name) for policy in changed):
                _govern_queue(ledger, queue, defaults)


def _govern_queue(ledger: Ledger, queue: Queue, defaults: FlowDefaults) -> None:
    governed = governed_queue(queue, ledger.topology, defaults)
    if governed != queue:
        ledger.add_queue(governed)


def follow_bindings(ledger: Ledger, vhost: str, queue: str | None, defaults: FlowDefaults) -> None:
    """Update what queues inherit from exchanges, after bindings to a queue, or (None) to exchanges, have changed."""
    if not exchanges_hand_down(vhost, ledger.topology):
        return
    concerned = ledger.topology.queues_in(vhost) if queue is None else [ledger.topology.queue(vhost, queue)]
    for found in concerned:
        if found is not None:
            _govern_queue(ledger, found, defaults)


# Explanations


def explain_policies(record: Queue | Exchange, topology: Topology) -> dict[str, Any]:
    """Return which policies govern a queue or an exchange, which others match it, and the effect of each key."""
    sort = queue_type(record.arguments) if isinstance(record, Queue) else EXCHANGE
    policy, operator = policies_of(record.vhost, sort, record.name, topology)
    others = [
        other.name
        for each in (False, True)
        for other in topology.policies(record.vhost, operator=each)
        if other not in (policy, operator) and governs(other, sort, record.name)
    ]
    merged = effective(record.arguments, sort, policy, operator)
    keys = [
        {"key": key, "value": value, "effect": _effect(key, value, sort, record.arguments, merged)}
        for key, value in combined(policy, operator).items()
    ]
    return {
        "policy": policy.name if policy else None,
        "operator_policy": operator.name if operator else None,
        "others": others,
        "keys": keys,
    }


def _effect(key: str, value: object, sort: str, declared: Any, merged: dict[str, Any]) -> str:
    meaning = KEYS.get(key)
    if meaning is None:
        return "none: accepted for RabbitMQ's sake"
    if sort not in meaning.governs:
        return f"none: it is not for {'exchanges' if sort == EXCHANGE else f'{sort} queues'}"
    if meaning.argument in declared and merged[meaning.argument] != value:
        return f"none: the declaration says {merged[meaning.argument]!r}"
    if meaning.argument.startswith("qpid.") and merged.get("x-overflow", "flow") != "flow":
        return f"none: the overflow is {merged['x-overflow']!r}"
    return "yes"
