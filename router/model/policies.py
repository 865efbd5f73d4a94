"""Policies: what an operator says about queues, exchanges and others by their names (RabbitMQ's policies, extended).

A policy governs what its pattern is found in the name of, if `apply_to` says so. Of several the one of the highest
priority does, and no other (of equals, the first by name). Operator policies are a second set of which one governs as
well: it bounds what the policy says.

`effective` puts both together with the arguments of a declaration: of numbers the smallest counts, of all else the
argument before the policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.limits.queue_limits import BYTES, COUNT
from penstock.text.amounts import Amount, count, percentage, size
from penstock.text.patterns import pattern
from router.model.policy_keys import APPLY_TO, KEYS, spelled_out
from router.model.records import Arguments, Policy

if TYPE_CHECKING:
    from router.model.topology import Topology

STOPS = (*COUNT.stops, *BYTES.stops)
SIZES = (*BYTES.limits, *BYTES.stops, *BYTES.resumes, "x-max-rate-bytes")


def governs(policy: Policy, sort: str, name: str) -> bool:
    """Whether it applies to what has that name: a queue of the type `sort`, or another sort (`APPLY_TO`)."""
    return sort in APPLY_TO[policy.apply_to] and pattern(policy.pattern).matches(name)


def governing(policies: Iterable[Policy], sort: str, name: str) -> Policy | None:
    """The policy that governs something, of those of one set."""
    found = [policy for policy in policies if governs(policy, sort, name)]
    return min(found, key=lambda policy: (-policy.priority, policy.name), default=None)


def policy_for(topology: Topology, vhost: str, sort: str, name: str, operator: bool = False) -> Policy | None:
    """The policy of a vhost ("" for those that are in none) that governs something."""
    return governing(topology.policies(vhost, operator=operator), sort, name)


# Together with the arguments


def effective(arguments: Arguments, sort: str, policy: Policy | None, operator: Policy | None) -> dict[str, Any]:
    """The arguments of a declaration as if it had said what the policies say."""
    merged = dict(arguments)
    for key, value in combined(policy, operator).items():
        meaning = KEYS.get(key)
        if meaning is None or sort not in meaning.governs:
            continue
        if meaning.argument not in merged:
            merged[meaning.argument] = value
        elif meaning.smaller:
            merged[meaning.argument] = _smaller(meaning.argument, merged[meaning.argument], value)
    return merged


def combined(policy: Policy | None, operator: Policy | None) -> dict[str, Any]:
    """What both definitions say together. An operator's policy bounds numbers, and overrules all else."""
    definition = spelled_out(policy.definition) if policy else {}
    for key, value in spelled_out(operator.definition).items() if operator else ():
        bounded = key in definition and KEYS[key].smaller
        definition[key] = _smaller(KEYS[key].argument, definition[key], value) if bounded else value
    return definition


def _smaller(argument: str, *values: Any) -> Any:
    """The smallest number that is a limit: a negative delivery limit and a stop mark of 0 are none.

    What a percentage comes to is not known here: between one and a number the nearer of the two counts, that is the
    first.
    """
    amounts = [_amount(argument, value) for value in values]
    if len({amount.percent for amount in amounts}) > 1:
        return values[0]
    numbers = [amount.value for amount in amounts]
    if argument == "x-delivery-limit":
        limits = [number for number in numbers if number >= 0]
    elif argument in STOPS:
        limits = [number for number in numbers if number]
    else:
        limits = numbers
    return values[numbers.index(min(limits or numbers))]


def _amount(argument: str, value: Any) -> Amount:
    if not isinstance(value, str):
        return Amount(value)
    percent = percentage(value)
    if percent is not None:
        return Amount(percent, percent=True)
    return Amount(size(value) if argument in SIZES else count(value))
