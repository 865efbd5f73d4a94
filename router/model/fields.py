"""Values of field tables as bindings and declarations compare them.

RabbitMQ first compares the classes of two values' types, ignoring the width of numbers, then the values: 1 is 1
whatever its width, but neither 1.0 nor true nor "1".
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from penstock.amqp.values import type_name

Typed: TypeAlias = tuple[Any, ...]
"""The class of a value's type, and the value. Hashable, and equal exactly if the values are."""


def typed(value: object) -> Typed:
    """Return a value with the class of its type. TypeError for a value that no field table can hold."""
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
        return ("bytes", bytes(value))
    if isinstance(value, Mapping):
        return ("table", frozenset((name, typed(inner)) for name, inner in value.items()))
    if isinstance(value, (list, tuple)):
        return ("array", tuple(typed(inner) for inner in value))
    if isinstance(value, Decimal):
        return ("decimal", value)
    raise TypeError(f"a field table cannot hold {type(value).__name__}")


def equal_tables(left: Mapping[str, object], right: Mapping[str, object]) -> bool:
    """Whether two field tables are equal, values with the classes of their types."""
    return len(left) == len(right) and (not left or typed(left) == typed(right))


def shown(value: object) -> str:
    """Return a value as in RabbitMQ's reply texts: a string as it is, any other value as Erlang prints it."""
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
