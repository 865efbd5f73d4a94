"""The reasons for which arguments of declarations are refused, in plain words for operators. AMQP clients get the same
reasons as RabbitMQ words them, which are terms of Erlang.
"""

from __future__ import annotations

import re

from penstock.limits.features import DEADLOCK_ACTIONS
from penstock.limits.queue_limits import POLICY_TYPES
from penstock.limits.watermarks import OVERFLOWS
from router.model.policy_keys import FAIR_BY

TYPES = {
    "longstr": "text",
    "signedint": "a whole number",
    "long": "a whole number",
    "integer": "a whole number",
    "bool": "true or false",
    "float": "a fraction",
    "double": "a fraction",
    "array": "a list",
    "table": "an object",
    "void": "null",
}
"""What RabbitMQ's words for types are called in JSON."""

WORDS = {
    "invalid_overflow": OVERFLOWS,
    "invalid_flow": ("on", "off"),
    "invalid_policy_type": tuple(POLICY_TYPES),
    "invalid_deadlock": DEADLOCK_ACTIONS,
    "invalid_tx_when_full": ("wait", "reject"),
    "invalid_fair_by": FAIR_BY,
    "invalid_dlx_strategy": ("at-most-once", "at-least-once"),
    "invalid_queue_locator_arg": ("client-local", "balanced", "random", "least-leaders"),
}
"""The values that can be, by the reason given for any other."""

_TERM = re.compile(r"\{(\w+),([\w-]+)\}")
_EXPECTED = re.compile(r"expected (\w+), got (\w+)")


def in_plain_words(reason: str) -> str:
    """Return a reason of `router.authority.queue_arguments` or `penstock.limits.queue_limits` in plain words."""
    reason = reason.strip('"')
    if reason in WORDS:
        return f"expected one of {', '.join(WORDS[reason])}"
    if (term := _TERM.fullmatch(reason)) is not None:
        return _of_term(*term.groups())
    if (expected := _EXPECTED.fullmatch(reason)) is not None:
        wanted, given = (TYPES.get(word, word) for word in expected.groups())
        return f"expected {wanted}, got {given}"
    return reason


def _of_term(kind: str, value: str) -> str:
    if kind == "unacceptable_type":
        wanted = "text" if value != "longstr" else "true or false"
        return f"expected {wanted}, got {TYPES.get(value, value)}"
    if kind == "value_negative":
        return f"{value} is negative"
    return f"{value} is too small" if kind == "value_zero" else f"{value} is too large"
