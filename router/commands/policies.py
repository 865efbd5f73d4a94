"""Commands on policies: names, arguments, results.

command          arguments                                                       result
policy_set       vhost, operator, name, pattern, apply_to, priority, definition  whether it is new
policy_try       as policy_set                                                   see `router.commands.policy_trial`
policy_delete    vhost, operator, name                                           None
policy_list      vhost | None                                                    [{vhost, operator, name, pattern,
                                                                                 apply_to, priority, definition}]
policy_explain   vhost, kind (queue, exchange), name                             {policy, operator_policy, others,
                                                                                 keys: [{key, value, effect}]}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.control.control import Refusal
from router.authority.governing import delete_policy, explain_policies, set_policy
from router.authority.policy_checks import PolicyError, check
from router.commands.administration import Administration, check_name, check_vhost
from router.commands.policy_trial import try_policy
from router.model.policy_keys import EXCHANGE
from router.model.records import Exchange, Policy, Queue, described

FIELDS: dict[str, Any] = {
    **dict.fromkeys(("vhost", "name", "pattern", "apply_to"), str),
    "operator": bool,
    "priority": int,
    "definition": dict,
}
"""The fields of a policy, as arguments."""


def policy_set(administration: Administration, **fields: Any) -> bool:
    """Make or replace a policy; whether it is new."""
    policy = _checked(administration, fields)
    known = administration.ledger.topology.policy(policy.vhost, policy.name, operator=policy.operator)
    set_policy(administration.ledger, policy, administration.defaults)
    return known is None


def policy_try(administration: Administration, **fields: Any) -> dict[str, Any]:
    """Return the changes that a policy would make (`try_policy`)."""
    policy = _checked(administration, fields)
    return try_policy(policy, administration.ledger.topology, administration.defaults)


def policy_delete(administration: Administration, vhost: str, operator: bool, name: str) -> None:
    """Delete a policy of a vhost ("": of the node)."""
    _check_place(administration, vhost)
    policy = administration.ledger.topology.policy(vhost, name, operator=operator)
    if policy is None:
        sort = "operator policy" if operator else "policy"
        place = described(sort, name, vhost) if vhost else f"{sort} '{name}' of the node"
        raise Refusal("not_found", f"there is no {place}")
    delete_policy(administration.ledger, policy, administration.defaults)


def policy_list(administration: Administration, vhost: str | None) -> list[dict[str, Any]]:
    """Return the policies of a vhost ("": of the node), or (None) all, by vhost and then by priority."""
    topology = administration.ledger.topology
    if vhost is not None:
        _check_place(administration, vhost)
    policies = [
        policy
        for each in (["", *topology.vhosts()] if vhost is None else [vhost])
        for operator in (False, True)
        for policy in topology.policies(each, operator=operator)
    ]
    policies.sort(key=lambda policy: (policy.vhost, policy.operator, -policy.priority, policy.name))
    return [{field: getattr(policy, field) for field in FIELDS} for policy in policies]


def policy_explain(administration: Administration, vhost: str, kind: str, name: str) -> dict[str, Any]:
    """Return which policies govern a queue or an exchange, and the effect of each key."""
    check_vhost(administration.ledger, vhost)
    topology = administration.ledger.topology
    record: Exchange | Queue | None
    record = topology.exchange(vhost, name) if kind == EXCHANGE else topology.queue(vhost, name)
    if record is None:
        raise Refusal("not_found", f"there is no {described(kind, name, vhost)}")
    return explain_policies(record, topology)


def _check_place(administration: Administration, vhost: str) -> None:
    """Refuse a vhost that does not exist; "" is the node."""
    if vhost:
        check_vhost(administration.ledger, vhost)


def _checked(administration: Administration, fields: Any) -> Policy:
    """Return the policy with these fields. Refusal if it is invalid."""
    if not isinstance(fields, dict) or fields.keys() != FIELDS.keys():
        raise Refusal("invalid", f"a policy has the fields {', '.join(FIELDS)}")
    for field, kind in FIELDS.items():
        if not isinstance(fields[field], kind):
            raise Refusal("invalid", f"the {field} of a policy cannot be {fields[field]!r}")
    _check_place(administration, fields["vhost"])
    check_name("policy", fields["name"])
    policy = Policy(**fields)
    try:
        check(policy, administration.defaults)
    except PolicyError as error:
        raise Refusal("invalid", str(error)) from None
    return policy


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "policy_set": (policy_set, FIELDS),
    "policy_try": (policy_try, FIELDS),
    "policy_delete": (policy_delete, {"vhost": str, "operator": bool, "name": str}),
    "policy_list": (policy_list, {"vhost": (str, type(None))}),
    "policy_explain": (policy_explain, {"vhost": str, "kind": str, "name": str}),
}
