"""The checks of a policy: its fields, its keys and their values, and whether limits and marks go together.

A refusal names the definition's own keys, not the arguments of queues that they translate to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from penstock.amqp.values import type_name
from penstock.limits.queue_limits import BYTES, COUNT, OVERFLOW, Dimension, asked_limits
from penstock.limits.watermarks import ArgumentError, FlowDefaults
from penstock.text.amounts import AmountError, percentage
from penstock.text.patterns import PatternError, pattern
from router.authority import queue_arguments
from router.authority.plain_words import in_plain_words
from router.model.fields import shown
from router.model.policy_keys import (
    APPLY_TO,
    BY_DESTINATION,
    FLOW_SHARE,
    GUARANTEE,
    IGNORED,
    KEYS,
    LAST_RESORT,
    LAST_RESORTS,
    LIMITS,
    NAMES,
    OF_THE_NODE,
    OVERTAKING,
    RABBITMQ_APPLY_TO,
    SHARED,
    WEIGHT,
    KeyProblem,
    spelled_out,
    written_names,
)
from router.model.records import Policy

PRIORITY_MAX = 2**31 - 1
VALUE_BYTES_MAX = 4096
WEIGHT_MAX = 1000
USUAL = FlowDefaults()
_ARGUMENT = re.compile(r"(?:x-|qpid\.)[\w-]+")


class PolicyError(ValueError):
    """An invalid policy; the text says which and why."""


def check(policy: Policy, defaults: FlowDefaults = USUAL) -> None:
    """PolicyError unless the policy is valid on a node with these defaults."""
    if policy.apply_to not in APPLY_TO:
        raise _invalid(policy, f"apply-to '{policy.apply_to}' is not one of {', '.join(APPLY_TO)}")
    if policy.apply_to in OF_THE_NODE and policy.vhost:
        raise _invalid(policy, f"a policy that applies to {policy.apply_to} belongs to the node, not to a vhost")
    if policy.apply_to not in OF_THE_NODE and not policy.vhost:
        raise _invalid(policy, f"a policy that applies to {policy.apply_to} belongs to a vhost")
    if isinstance(policy.priority, bool) or abs(policy.priority) > PRIORITY_MAX:
        raise _invalid(policy, f"priority {policy.priority} is not between -{PRIORITY_MAX} and {PRIORITY_MAX}")
    try:
        pattern(policy.pattern)
    except PatternError as error:
        raise _invalid(policy, str(error)) from None
    if not policy.definition:
        raise _invalid(policy, "its definition is empty")
    for name in policy.definition:
        if name not in NAMES:
            raise _invalid(policy, f"there is no key '{name}'{_hint(name)}")
    try:
        definition = spelled_out(policy.definition)
    except KeyProblem as problem:
        raise _invalid(policy, f"key '{problem.key}': {problem}") from None
    written = written_names(policy.definition)
    for key, value in definition.items():
        _check_key(policy, key, value, written.get(key, key))
    _check_limits(policy, definition, written, defaults.only_marks())


def _check_key(policy: Policy, key: str, value: object, written: str) -> None:
    if policy.operator and not (key in KEYS and KEYS[key].operator):
        raise _invalid(policy, f"key '{written}' is not for operator policies")
    if not _may_apply(key, policy.apply_to):
        raise _invalid(policy, f"key '{written}' does not apply to {policy.apply_to}")
    reason = _PROBLEMS.get(key, _problem)(key, value)
    if reason is not None:
        raise _invalid(policy, f"key '{written}': {in_plain_words(reason)}")


def _may_apply(key: str, apply_to: str) -> bool:
    """Whether a policy with that apply-to may have a key. RabbitMQ's keys are accepted wherever RabbitMQ does."""
    if key not in KEYS or (KEYS[key].from_rabbitmq and apply_to in RABBITMQ_APPLY_TO):
        return True
    return bool(KEYS[key].governs & APPLY_TO[apply_to]) or (KEYS[key].inherited and apply_to in OF_THE_NODE)


def _hint(name: str) -> str:
    if f"x-{name}" in queue_arguments.RULES:
        return f"; it is an argument of queue declarations, x-{name}"
    nearest = get_close_matches(name, NAMES, 1)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""


def _problem(key: str, value: object) -> str | None:
    return queue_arguments.problem(KEYS[key].argument, value)


def _no_text(_key: str, value: object) -> str | None:
    kind = type_name(value)
    return None if kind == "longstr" else f"expected longstr, got {kind}"


def _no_pattern(key: str, value: object) -> str | None:
    reason = _no_text(key, value)
    if reason is None:
        try:
            pattern(str(value))
        except PatternError as error:
            reason = str(error)
    return reason


def _no_percentage(_key: str, value: object) -> str | None:
    try:
        return None if percentage(str(value)) is not None else "expected a percentage such as '50 %'"
    except AmountError as problem:
        return str(problem)


def _no_weight(_key: str, value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= WEIGHT_MAX:
        return None
    return f"expected a whole number from 1 to {WEIGHT_MAX}"


def _no_overtaking(_key: str, value: object) -> str | None:
    return None if value == BY_DESTINATION else f"expected '{BY_DESTINATION}'"


def _no_last_resort(_key: str, value: object) -> str | None:
    return None if value in LAST_RESORTS else f"expected one of {', '.join(LAST_RESORTS)}"


def _too_much(_key: str, value: object) -> str | None:
    """Check the value of an ignored key, which has to be kept."""
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, (str, int, float)) for word in words):
        return "expected text, a number, true, false or a list of them"
    if any(isinstance(word, int) and not -(2**63) <= word < 2**63 for word in words):
        return "a number of more than 64 bits"
    return None if len(shown(value)) <= VALUE_BYTES_MAX else f"longer than {VALUE_BYTES_MAX} characters"


_PROBLEMS: dict[str, Callable[[str, object], str | None]] = {
    "alternate-exchange": _no_text,
    "routing-key": _no_pattern,
    **dict.fromkeys((FLOW_SHARE, GUARANTEE), _no_percentage),
    WEIGHT: _no_weight,
    OVERTAKING: _no_overtaking,
    LAST_RESORT: _no_last_resort,
    **dict.fromkeys(IGNORED, _too_much),
}


def _check_limits(
    policy: Policy, definition: dict[str, Any], written: Mapping[str, str], defaults: FlowDefaults
) -> None:
    """PolicyError unless the definition's limits and marks go together, as far as it has both sides to compare."""
    of_each = {key: meaning.argument for key, meaning in KEYS.items() if meaning.governs & APPLY_TO["queues"]}
    of_several = [{f"{shared}-{name}": argument for name, argument in LIMITS.items()} for shared in SHARED]
    for keys in (of_each, *of_several):
        given = {argument: definition[key] for key, argument in keys.items() if key in definition}
        if keys is not of_each:
            given[OVERFLOW] = "flow"
        for dimension in (COUNT, BYTES):
            _make_comparable(given, dimension)
        try:
            asked_limits(given, defaults)
        except ArgumentError as error:
            key = next(key for key, argument in keys.items() if argument == error.argument)
            raise _invalid(policy, f"key '{written[key]}': {_in_keys(str(error), keys, written)}") from None


def _in_keys(reason: str, keys: Mapping[str, str], written: Mapping[str, str]) -> str:
    """Return the reason why limits and marks do not go together, with keys for the arguments that it names.

    The reason quotes no text of the definition: each value by itself has been found valid.
    """
    names = {argument: written.get(key, key) for key, argument in keys.items()}
    for key in ("overflow", "flow"):  # the reason has their values in penstock's words
        if key in written and written[key] != key:
            names[KEYS[key].argument] = f"{key} ({written[key]})"
    return _ARGUMENT.sub(lambda found: names[found[0]], in_plain_words(reason))


def _make_comparable(given: dict[str, Any], dimension: Dimension) -> None:
    """Leave out marks that nothing in the definition can be compared with."""
    limit = dimension.limits[0]
    stops = [name for name in dimension.stops if name in given]
    marks = [*stops, *(name for name in dimension.resumes if name in given)]
    percents = [name for name in marks if str(given[name]).endswith("%")]
    if limit not in given and percents == marks and stops:
        given[limit] = 100  # percentages are compared with each other
    elif limit not in given:
        for name in percents:
            del given[name]
    if limit not in given and not any(name in given for name in dimension.stops):
        for name in dimension.resumes:
            given.pop(name, None)


def _invalid(policy: Policy, reason: str) -> PolicyError:
    return PolicyError(f"invalid {policy}: {reason}")
