"""Policies: an operator's settings for queues, exchanges and others, by their names (RabbitMQ's policies, extended).

A policy can govern everything of its `apply_to` with a name in which its pattern is found. Of several such policies
only the one of the highest priority governs (of equals, the first by name). Operator policies are a second set, of
which one governs as well: it bounds the values of the policy.

`effective` merges both with the arguments of a declaration: the smallest number counts; any other argument of the
declaration takes precedence over the policy's.
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
    """Whether a policy applies to a name of that sort (`APPLY_TO`): for a queue, its type."""
    return sort in APPLY_TO[policy.apply_to] and pattern(policy.pattern).matches(name)


def governing(policies: Iterable[Policy], sort: str, name: str) -> Policy | None:
    """Return the one of these policies that governs a name, None if none does."""
    found = [policy for policy in policies if governs(policy, sort, name)]
    return min(found, key=lambda policy: (-policy.priority, policy.name), default=None)


def policy_for(topology: Topology, vhost: str, sort: str, name: str, operator: bool = False) -> Policy | None:
    """Return the policy of a vhost ("": of the node) that governs a name, None if none does."""
    return governing(topology.policies(vhost, operator=operator), sort, name)


# Together with the arguments


def effective(arguments: Arguments, sort: str, policy: Policy | None, operator: Policy | None) -> dict[str, Any]:
    """Return the arguments of a declaration merged with its policies."""
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
    """Return both definitions merged. The operator policy bounds numbers and overrules all other values."""
    definition = spelled_out(policy.definition) if policy else {}
    for key, value in spelled_out(operator.definition).items() if operator else ():
        bounded = key in definition and KEYS[key].smaller
        definition[key] = _smaller(KEYS[key].argument, definition[key], value) if bounded else value
    return definition


def _smaller(argument: str, *values: Any) -> Any:
    """Return the smallest value that is a limit: a negative delivery limit and a stop mark of 0 are none.

    A percentage cannot be compared with a number here; then the first value counts, as the one nearer to the queue.
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
