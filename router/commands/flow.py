"""Commands that explain flow control: names, arguments, results.

command        arguments    result
flow_explain   vhost, name  {queue_id, slot, durable, policy, operator_policy, settings: [{setting, value, source}],
                            shared: [{limit, how, policy, stop_count, resume_count, stop_bytes, resume_bytes, slots}],
                            bindings: [{exchange, leads_to, made_by, count, stops_producers, why}]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.control.control import Refusal
from penstock.limits.features import UNCONSUMED, granted_on_wire, unprivileged_reason_on_wire
from penstock.limits.queue_limits import SETTINGS, decided
from penstock.limits.watermarks import FlowDefaults
from router.authority.governing import policies_of
from router.authority.inheritance import defaults_for, levels_of, upstream
from router.authority.queue_arguments import queue_type
from router.authority.standing import Standing, standing_of
from router.commands.administration import Administration, check_vhost
from router.model.grants import has_power, refused_by
from router.model.policies import combined, effective
from router.model.policy_keys import EXCHANGE, KEYS, RATES
from router.model.records import Arguments, Policy, Queue, described
from router.model.shared_limits import SharedLimit, covering, queues_of
from router.model.topology import Topology

SHOWN_IF_SET = (*RATES, "pace-depth", "pace-wait", "fair-by", "lane-priority", "lane-key", "lane-reserve")
"""Settings that are shown if the declaration or a policy of the queue sets them."""
_KEY_OF = {meaning.argument: key for key, meaning in KEYS.items() if meaning.inherited}


def flow_explain(administration: Administration, vhost: str, name: str) -> dict[str, Any]:
    """Return every setting of a queue's flow control with its source, the limits it shares, and the bindings to it."""
    check_vhost(administration.ledger, vhost)
    topology = administration.ledger.topology
    queue = topology.queue(vhost, name)
    if queue is None:
        raise Refusal("not_found", f"there is no {described('queue', name, vhost)}")
    shared = covering(queue, upstream(queue, topology), topology, administration.defaults)
    return {
        "queue_id": queue.queue_id,
        "slot": queue.slot,
        "durable": queue.durable,
        "policy": queue.policy,
        "operator_policy": queue.operator_policy,
        "settings": settings_of(queue, topology, administration.defaults),
        "shared": [shown_limit(limit, topology) for limit in shared],
        "bindings": bindings_of(queue, topology),
    }


def bindings_of(queue: Queue, topology: Topology) -> list[dict[str, Any]]:
    """Return the bindings through which messages come to a queue, those of one user from one exchange together, and
    whether the queue may stop producers that publish there.
    """
    waiting = list(topology.bindings_to(queue.vhost, "queue", queue.name))
    found: dict[tuple[str, str, str | None, str], int] = {}
    passed: set[str] = set()
    while waiting:
        binding = waiting.pop(0)
        leads_to = f"{binding.kind} '{binding.destination}'"
        way = binding.source, leads_to, binding.maker, refused_by(topology, binding) or ""
        found[way] = found.get(way, 0) + 1
        if binding.source not in passed:
            passed.add(binding.source)
            waiting += topology.bindings_to(queue.vhost, EXCHANGE, binding.source)
    granted = granted_on_wire(queue.features)
    weak = "" if granted or has_power(queue) else str(unprivileged_reason_on_wire(queue.features))
    return [
        {"exchange": exchange, "leads_to": leads_to, "made_by": maker, "count": count,
         "stops_producers": granted or not (weak or refused),
         "why": weak or (refused if not granted else "a policy of the queue grants it")}
        for (exchange, leads_to, maker, refused), count in found.items()
    ]  # fmt: skip


def settings_of(queue: Queue, topology: Topology, defaults: FlowDefaults) -> list[dict[str, Any]]:
    """Return each setting with its value (None if there is none) and its source ("" then)."""
    sort = queue_type(queue.arguments)
    policy, operator = policies_of(queue.vhost, sort, queue.name, topology)
    arguments = effective(queue.arguments, sort, policy, operator)
    levels = levels_of(queue, topology)
    decision = decided(
        arguments,
        defaults_for(queue, defaults),
        adapt=True,
        levels=levels,
        origin=lambda name: _origin(name, arguments, queue.arguments, policy, operator),
    )
    limits, marks = decision.limits, decision.limits.marks
    standing = standing_of(queue, policy, operator, levels)
    overflow = "spill, then ring" if standing.unprivileged_reason and limits.overflow == "flow" else limits.overflow
    values = {
        "flow": "on" if limits.overflow == "flow" and decision.flow else "off",
        "overflow": overflow,
        "max-length": limits.max_count,
        "max-length-bytes": limits.max_bytes,
        "flow-stop-count": marks.stop_count or None,
        "flow-resume-count": marks.resume_count if marks.stop_count else None,
        "flow-stop-size": marks.stop_bytes or None,
        "flow-resume-size": marks.resume_bytes if marks.stop_bytes else None,
        "throttle": decision.throttle,
        "hold": decision.hold,
    }
    found = [
        {"setting": setting, "value": values[setting], "source": _with_policy_key(decision.sources.get(setting, ""))}
        for setting in SETTINGS
    ]
    for key in SHOWN_IF_SET:
        name = KEYS[key].argument
        if name in arguments:
            whose = _origin(name, arguments, queue.arguments, policy, operator)
            said = name if whose == "declaration" else key
            found.append({"setting": key, "value": arguments[name], "source": f"{whose}: {said}"})
    return [*found, {"setting": "stops-producers", **_standing_row(standing, overflow, queue.durable)}]


def _standing_row(standing: Standing, overflow: str, durable: bool) -> dict[str, str]:
    """Return whether a queue may stop producers, and why."""
    if standing.unprivileged_reason == UNCONSUMED:
        value = "once consumed from"
    elif overflow != "flow":
        value = "no"
    else:
        value = "always" if standing.essential else "yes"
    by_itself = "durable and named" if durable else "it has limits of its own"
    if overflow not in ("flow", "spill, then ring"):
        by_itself = f"overflow {overflow}"
    return {"value": value, "source": standing.unprivileged_reason or standing.source or by_itself}


def _origin(name: str, merged: Arguments, declared: Arguments, policy: Policy | None, operator: Policy | None) -> str:
    """Return the source of an argument, after the policies were merged into the declaration."""
    if name in declared and declared[name] == merged[name]:
        return "declaration"
    key = _KEY_OF.get(name, "")
    of_operator = combined(None, operator)
    if operator is not None and of_operator.get(key) == merged[name]:
        return f"operator policy '{operator.name}'"
    return f"policy '{policy.name}'" if policy is not None else "declaration"


def _with_policy_key(source: str) -> str:
    """Return a source with a policy's key in place of the argument."""
    whose, _, name = source.rpartition(": ")
    return f"{whose}: {_KEY_OF.get(name, name)}" if whose and whose != "declaration" else source


def shown_limit(limit: SharedLimit, topology: Topology) -> dict[str, Any]:
    """Return a limit over several queues as commands show it."""
    marks = limit.marks
    return {
        "limit": str(limit),
        "how": limit.shared,
        "policy": limit.policy,
        "stop_count": marks.stop_count,
        "resume_count": marks.resume_count,
        "stop_bytes": marks.stop_bytes,
        "resume_bytes": marks.resume_bytes,
        "slots": [queue.slot for queue in queues_of(limit, topology)],
    }


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "flow_explain": (flow_explain, {"vhost": str, "name": str}),
}
