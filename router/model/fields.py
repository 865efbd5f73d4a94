"""Values of field tables as bindings and declarations compare them.

RabbitMQ compares the class of two values' types first, where the width of a number does not count, then the values:
1 is 1 whatever its width, but neither 1.0 nor true, and "1" is none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from penstock.amqp.values import type_name

Typed: TypeAlias = tuple[Any, ...]
"""Class of type and value. Hashable, and equal exactly where the values are."""


def typed(value: object) -> Typed:
    """The value with the class of its type. TypeError for what no field table can hold."""
    if value is None:
        return ("void",)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("integer", int(value))
    if isinstance(value, float):
        return ("float", float(value) if value == value else "nan")
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bytes):
        return ("octets", bytes(value))
    if isinstance(value, Mapping):
        return ("table", frozenset((name, typed(inner)) for name, inner in value.items()))
    if isinstance(value, (list, tuple)):
        return ("array", tuple(typed(inner) for inner in value))
    if isinstance(value, Decimal):
        return ("decimal", value)
    raise TypeError(f"a field table cannot hold {type(value).__name__}")


def shown(value: object) -> str:
    """A value as RabbitMQ's reply texts have it: strings as they are, all else as Erlang prints it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return _term(value)


def _term(value: object) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, bytes)):
        return f'<<"{shown(value)}">>' if value else "<<>>"
    if isinstance(value, Mapping):
        inner = (f'{{<<"{name}">>,{type_name(field)},{_term(field)}}}' for name, field in value.items())
        return f"[{','.join(inner)}]"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(f'{{{type_name(item)},{_term(item)}}}' for item in value)}]"
    return str(value)
