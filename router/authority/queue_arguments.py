"""The arguments of queue.declare: which there are, for which types of queue, and with which values.

The order of checks and the texts are RabbitMQ's. Unknown arguments are accepted. Limits and marks are checked by
`penstock.limits.queue_limits`, all other arguments here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from penstock.amqp.errors import amqp_error
from penstock.amqp.values import type_name
from penstock.limits import queue_limits
from penstock.limits.features import DEADLOCK_ACTIONS, ESSENTIAL, LAST_VALUE_KEYS
from penstock.limits.watermarks import ArgumentError, FlowDefaults, QueueLimits
from penstock.text.amounts import AmountError, size
from penstock.text.durations import seconds_of
from penstock.text.patterns import PatternError, pattern
from router.model.fields import shown
from router.model.policy_keys import FAIR_BY
from router.model.records import Arguments

TEN_YEARS_MS = 315_360_000_000
"""The longest time that RabbitMQ's timers accept."""
PRIORITY_MAX = 255
RATE_MAX = 1_000_000_000
"""Messages a second; a limit of bytes a second may be a thousand times as large."""
HOUR = 3600

Check: TypeAlias = Callable[[object], str | None]
"""Returns why a value is invalid, None if it is valid."""


def _integer(*limits: Callable[[int], str | None]) -> Check:
    """Return a check for an integer that passes all the limits."""

    def check(value: object) -> str | None:
        kind = type_name(value)
        if not isinstance(value, int) or kind not in ("signedint", "long"):
            return f'"expected integer, got {kind}"'
        return next((reason for limit in limits if (reason := limit(value))), None)

    return check


def _not_negative(number: int) -> str | None:
    return f"{{value_negative,{number}}}" if number < 0 else None


def _not_zero(number: int) -> str | None:
    return None if number else "{value_zero,0}"


def _at_most(limit: int, reason: str) -> Callable[[int], str | None]:
    return lambda number: f"{{{reason},{number}}}" if number > limit else None


def _version(number: int) -> str | None:
    return None if number in (1, 2) else f"\"unsupported queue version '{number}'\""


def _of_type(word: str) -> Check:
    def check(value: object) -> str | None:
        kind = type_name(value)
        return None if kind == word else f"{{unacceptable_type,{kind}}}"

    return check


_text = _of_type("longstr")


def _one_of(reason: str, *words: str) -> Check:
    """Return a check for one of the words; `reason` may contain the {value}."""

    def check(value: object) -> str | None:
        return _text(value) or (None if value in words else reason.format(value=shown(value)))

    return check


def _anything(_value: object) -> str | None:
    """Accept any value, for an argument without effect."""
    return None


_milliseconds = _integer(_not_negative, _at_most(TEN_YEARS_MS, "value_too_large"))
_some_milliseconds = _integer(_not_zero, _not_negative, _at_most(TEN_YEARS_MS, "value_too_large"))
_priority = _integer(_not_negative, _at_most(PRIORITY_MAX, "max_value_exceeded"))


def _time(value: object) -> str | None:
    """Check a duration in words, of at most an hour."""
    reason = _text(value)
    if reason is None:
        try:
            reason = None if 0 < seconds_of(str(value)) <= HOUR else f"\"'{value}' is not between 1 ms and 1 h\""
        except ValueError as problem:
            reason = f'"{problem}"'
    return reason


def _pattern(value: object) -> str | None:
    reason = _text(value)
    if reason is None:
        try:
            pattern(str(value))
        except PatternError as problem:
            reason = f'"{problem}"'
    return reason


def _nbytes(value: object) -> str | None:
    """Check a number of bytes, or a size in words; not 0."""
    if type_name(value) == "longstr":
        try:
            value = size(str(value))
        except AmountError as problem:
            return f'"{problem}"'
    return _rate_in_bytes(value)


_size = _integer(_not_negative)
_count = _integer(_not_negative, _not_zero)
_rate = _integer(_not_negative, _not_zero, _at_most(RATE_MAX, "value_too_large"))
_rate_in_bytes = _integer(_not_negative, _not_zero, _at_most(1000 * RATE_MAX, "value_too_large"))

_CLASSIC = frozenset({"classic"})
_QUORUM = frozenset({"quorum"})
_ALL = _CLASSIC | _QUORUM
_STREAM: frozenset[str] = frozenset()
"""No type of queue: streams are refused, so arguments that only streams have are invalid for every queue."""


class _Rule(NamedTuple):
    """The types of queue that have an argument, and its `check`; None if `penstock.limits.queue_limits` checks it."""

    types: frozenset[str]
    check: Check | None = None


_queue_type = _one_of("\"unsupported queue type '{value}'\"", *sorted(_ALL))

# In the order in which RabbitMQ checks them. Arguments about replicas and memory have no effect here.
RULES: dict[str, _Rule] = {
    "x-expires": _Rule(_CLASSIC | _QUORUM, _some_milliseconds),
    "x-message-ttl": _Rule(_CLASSIC | _QUORUM, _milliseconds),
    "x-dead-letter-exchange": _Rule(_CLASSIC | _QUORUM, _text),
    "x-dead-letter-routing-key": _Rule(_CLASSIC | _QUORUM, _text),
    "x-dead-letter-strategy": _Rule(_QUORUM, _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once")),
    "x-max-length": _Rule(_CLASSIC | _QUORUM),
    "x-max-length-bytes": _Rule(_ALL),
    "x-max-priority": _Rule(_CLASSIC, _priority),
    "x-overflow": _Rule(_CLASSIC | _QUORUM),
    **dict.fromkeys(LAST_VALUE_KEYS, _Rule(_CLASSIC | _QUORUM, _text)),
    "x-queue-mode": _Rule(_CLASSIC, _one_of("\"unsupported queue mode '{value}'\"", "default", "lazy")),
    "x-queue-master-locator": _Rule(_CLASSIC, _anything),
    "x-queue-version": _Rule(_CLASSIC, _integer(_not_negative, _version)),
    "x-single-active-consumer": _Rule(_CLASSIC | _QUORUM, _of_type("bool")),
    "x-queue-type": _Rule(_ALL, _queue_type),
    "x-delivery-limit": _Rule(_QUORUM, _integer()),
    "x-consumer-timeout": _Rule(_CLASSIC | _QUORUM, _size),
    ESSENTIAL: _Rule(_ALL, _of_type("bool")),
    "x-deadlock": _Rule(_ALL, _one_of("invalid_deadlock", *DEADLOCK_ACTIONS)),
    "x-tx-when-full": _Rule(_ALL, _one_of("invalid_tx_when_full", "wait", "reject")),
    "x-fair-by": _Rule(_ALL, _one_of("invalid_fair_by", *FAIR_BY)),
    "x-lane-priority": _Rule(_ALL, _priority),
    "x-lane-key": _Rule(_ALL, _pattern),
    "x-lane-reserve": _Rule(_ALL, _rate),
    "x-pace-depth": _Rule(_ALL, _rate),
    "x-pace-wait": _Rule(_ALL, _time),
    "x-max-rate": _Rule(_ALL, _rate),
    "x-max-rate-bytes": _Rule(_ALL, _nbytes),
    "x-rate-burst": _Rule(_ALL, _time),
    "x-max-age": _Rule(_STREAM, _anything),
    "x-stream-max-segment-size-bytes": _Rule(_STREAM, _anything),
    "x-initial-cluster-size": _Rule(_STREAM, _anything),
    "x-quorum-initial-group-size": _Rule(_QUORUM, _count),
    "x-max-in-memory-length": _Rule(_QUORUM, _size),
    "x-max-in-memory-bytes": _Rule(_QUORUM, _size),
    "x-queue-leader-locator": _Rule(
        _ALL, _one_of("invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders")
    ),
}

_NOT_COMPARED = {"x-queue-type", "x-quorum-initial-group-size", "x-queue-leader-locator", "x-dead-letter-strategy"}
KNOWN: frozenset[str] = frozenset((*RULES, *queue_limits.ARGUMENTS))
"""All arguments with a meaning; others are only accepted and kept."""
COMPARED = (*(name for name in RULES if name not in _NOT_COMPARED), *queue_limits.ARGUMENTS)
"""The arguments in which a redeclaration must agree; the queue type is compared apart, as it has a default."""


def queue_type(arguments: Arguments) -> str:
    """Return the type of a queue with these arguments: classic or quorum."""
    return str(arguments.get("x-queue-type", "classic"))


def check_arguments(subject: object, arguments: Arguments, defaults: FlowDefaults) -> QueueLimits:
    """Return the limits of a queue with these arguments; 406 if they are invalid.

    `subject` is the name of the queue in reply texts.
    """
    if "x-queue-type" in arguments:
        _check("x-queue-type", _queue_type, subject, arguments)
    kind = queue_type(arguments)
    for name, rule in RULES.items():
        if name in arguments and kind not in rule.types:
            raise amqp_error(406, f"invalid arg '{name}' for {subject} of queue type rabbit_{kind}_queue")
    dead_letters_to = arguments.get("x-dead-letter-exchange", "")
    check_exchange_name(subject, "x-dead-letter-exchange", dead_letters_to)
    for name, rule in RULES.items():
        if name in arguments and rule.check is not None:
            _check(name, rule.check, subject, arguments)
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise invalid("x-dead-letter-routing-key", subject, "routing_key_but_no_dlx_defined")
    try:
        return queue_limits.asked_limits(arguments, defaults)
    except ArgumentError as error:
        raise invalid(error.argument, subject, str(error)) from None


def check_properties(subject: object, kind: str, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """406 for properties that a quorum queue cannot have."""
    if kind == "classic":
        return
    for wrong, word in ((auto_delete, "auto-delete"), (exclusive, "exclusive-owner"), (not durable, "non-durable")):
        if wrong:
            raise amqp_error(406, f"invalid property '{word}' for {subject}")


def check_exchange_name(subject: object, argument: str, value: object) -> None:
    """406 unless the argument, which names an exchange, is text."""
    kind = type_name(value)
    if kind != "longstr":
        raise amqp_error(406, f"invalid type '{kind}' for arg '{argument}' in {subject}")


def problem(name: str, value: object) -> str | None:
    """Return why an argument of `RULES` or `queue_limits.ARGUMENTS` cannot have a value, whatever the others are."""
    rule = RULES.get(name)
    if rule is not None and rule.check is not None:
        return rule.check(value)
    try:
        queue_limits.asked_limits({name: value}, FlowDefaults(), adapt=True)
    except ArgumentError as error:
        return str(error)
    return None


def _check(name: str, check: Check, subject: object, arguments: Arguments) -> None:
    reason = check(arguments[name])
    if reason is not None:
        raise invalid(name, subject, reason)


def invalid(name: str, subject: object, reason: str) -> Exception:
    """Return the 406 for an argument of a declaration."""
    return amqp_error(406, f"invalid arg '{name}' for {subject}: {reason}")
