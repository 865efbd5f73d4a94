"""Policies: what an operator says about queues and exchanges by their names (RabbitMQ's policies, with its keys).

A policy governs what its pattern is found in the name of, if `apply_to` says so. Of several the one of the highest
priority does, and no other (of equals, the first by name). Operator policies are a second set of which one governs as
well: it bounds what the policy says.

`effective` puts both together with the arguments of a declaration: of numbers the smallest counts, of all else the
argument before the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, NamedTuple

from penstock.amqp.values import type_name
from penstock.asked import asked_limits
from penstock.patterns import PatternError, pattern
from penstock.watermarks import ArgumentError, FlowDefaults
from router import queue_arguments
from router.fields import shown
from router.records import Arguments, Policy

EXCHANGE = "exchange"
APPLY_TO: dict[str, frozenset[str]] = {
    "all": frozenset({EXCHANGE, "classic", "quorum", "stream"}),
    "queues": frozenset({"classic", "quorum", "stream"}),
    "classic_queues": frozenset({"classic"}),
    "quorum_queues": frozenset({"quorum"}),
    "streams": frozenset({"stream"}),
    "exchanges": frozenset({EXCHANGE}),
}
"""What a policy may apply to: exchanges, and types of queues."""

PRIORITY_MAX = 2**31 - 1
VALUE_OCTETS_MAX = 4096

_QUEUES = APPLY_TO["queues"]


class Key(NamedTuple):
    """A key of definitions.

    `argument` is the argument of a declaration that says the same, `governs` what it means something for. Where
    `smaller`, the smallest of the numbers given counts.
    """

    argument: str
    governs: frozenset[str]
    smaller: bool = False
    operator: bool = False


def _limit(argument: str, governs: frozenset[str] = _QUEUES) -> Key:
    return Key(argument, governs, smaller=True, operator=True)


KEYS: dict[str, Key] = {
    "message-ttl": _limit("x-message-ttl"),
    "expires": _limit("x-expires"),
    "max-length": _limit("x-max-length"),
    "max-length-bytes": _limit("x-max-length-bytes"),
    "delivery-limit": _limit("x-delivery-limit", APPLY_TO["quorum_queues"]),
    "consumer-timeout": _limit("x-consumer-timeout"),
    "flow-stop-count": _limit("qpid.flow_stop_count"),
    "flow-resume-count": _limit("qpid.flow_resume_count"),
    "flow-stop-size": _limit("qpid.flow_stop_size"),
    "flow-resume-size": _limit("qpid.flow_resume_size"),
    "overflow": Key("x-overflow", _QUEUES, operator=True),
    "tx-when-full": Key("x-tx-when-full", _QUEUES, operator=True),
    "dead-letter-exchange": Key("x-dead-letter-exchange", _QUEUES),
    "dead-letter-routing-key": Key("x-dead-letter-routing-key", _QUEUES),
    "alternate-exchange": Key("alternate-exchange", APPLY_TO["exchanges"]),
}
"""The keys that have an effect."""

IGNORED = (
    *("dead-letter-strategy", "queue-mode", "queue-version", "queue-master-locator", "queue-leader-locator"),
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure"),
    *("initial-cluster-size", "max-age", "stream-max-segment-size-bytes", "max-in-memory-length"),
    *("max-in-memory-bytes", "federation-upstream", "federation-upstream-set"),
)
"""Keys of RabbitMQ's that are about replicas, other nodes, memory or streams: accepted, without effect."""


class PolicyError(ValueError):
    """A policy that cannot be; the text says which and why."""


def governs(policy: Policy, sort: str, name: str) -> bool:
    """Whether it applies to an exchange (`EXCHANGE`), or a queue of that type, of that name."""
    return sort in APPLY_TO[policy.apply_to] and pattern(policy.pattern).matches(name)


def governing(policies: Iterable[Policy], sort: str, name: str) -> Policy | None:
    """The policy that governs something, of those of one set."""
    found = [policy for policy in policies if governs(policy, sort, name)]
    return min(found, key=lambda policy: (-policy.priority, policy.name), default=None)


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
    definition = dict(policy.definition) if policy else {}
    for key, value in operator.definition.items() if operator else ():
        bounded = key in definition and KEYS[key].smaller
        definition[key] = _smaller(KEYS[key].argument, definition[key], value) if bounded else value
    return definition


def _smaller(argument: str, *values: Any) -> int:
    """The smallest number that is a limit: a negative delivery limit and a stop mark of 0 are none."""
    numbers = [int(value) for value in values]
    if argument == "x-delivery-limit":
        limits = [number for number in numbers if number >= 0]
    elif argument in ("qpid.flow_stop_count", "qpid.flow_stop_size"):
        limits = [number for number in numbers if number]
    else:
        limits = numbers
    return min(limits or numbers)


# Checks


def check(policy: Policy) -> None:
    """PolicyError unless there can be such a policy."""
    if policy.apply_to not in APPLY_TO:
        raise _invalid(policy, f"apply-to '{policy.apply_to}' is none of {', '.join(APPLY_TO)}")
    if isinstance(policy.priority, bool) or abs(policy.priority) > PRIORITY_MAX:
        raise _invalid(policy, f"priority {policy.priority} is not between -{PRIORITY_MAX} and {PRIORITY_MAX}")
    try:
        pattern(policy.pattern)
    except PatternError as error:
        raise _invalid(policy, str(error)) from None
    if not policy.definition:
        raise _invalid(policy, "its definition is empty")
    for key, value in policy.definition.items():
        _check_key(policy, key, value)
    _check_limits(policy)


def _check_key(policy: Policy, key: str, value: object) -> None:
    if key not in KEYS and key not in IGNORED:
        raise _invalid(policy, f"there is no key '{key}'{_hint(key)}")
    if policy.operator and not (key in KEYS and KEYS[key].operator):
        raise _invalid(policy, f"key '{key}' is not for operator policies")
    reason = _PROBLEMS.get(key, _problem)(key, value)
    if reason is not None:
        raise _invalid(policy, f"key '{key}': {reason.strip(chr(34))}")


def _hint(key: str) -> str:
    if f"x-{key}" in queue_arguments.RULES:
        return f", a queue says that itself: x-{key} in its arguments"
    nearest = get_close_matches(key, [*KEYS, *IGNORED], 1)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""


def _problem(key: str, value: object) -> str | None:
    return queue_arguments.problem(KEYS[key].argument, value)


def _no_text(_key: str, value: object) -> str | None:
    kind = type_name(value)
    return None if kind == "longstr" else f"expected longstr, got {kind}"


def _too_much(_key: str, value: object) -> str | None:
    """Nobody looks at the value, but it has to be kept."""
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, (str, int, float)) for word in words):
        return "expected text, a number, true, false or a list of them"
    if any(isinstance(word, int) and not -(2**63) <= word < 2**63 for word in words):
        return "a number of more than 64 bits"
    return None if len(shown(value)) <= VALUE_OCTETS_MAX else f"longer than {VALUE_OCTETS_MAX} octets"


_PROBLEMS: dict[str, Callable[[str, object], str | None]] = {
    "alternate-exchange": _no_text,
    **dict.fromkeys(IGNORED, _too_much),
}


def _check_limits(policy: Policy) -> None:
    """Limits and marks of one definition must go together, as far as it says enough."""
    given = {KEYS[key].argument: value for key, value in policy.definition.items() if key in KEYS}
    for resume, bounds in _RESUME_NEEDS.items():
        if not any(bound in given for bound in bounds):
            given.pop(resume, None)
    try:
        asked_limits(given, FlowDefaults())
    except ArgumentError as error:
        key = next((key for key, meaning in KEYS.items() if meaning.argument == error.argument), error.argument)
        raise _invalid(policy, f"key '{key}': {str(error).strip(chr(34))}") from None


_RESUME_NEEDS = {
    "qpid.flow_resume_count": ("qpid.flow_stop_count", "x-max-length"),
    "qpid.flow_resume_size": ("qpid.flow_stop_size", "x-max-length-bytes"),
}


def _invalid(policy: Policy, reason: str) -> PolicyError:
    return PolicyError(f"invalid {policy}: {reason}")
