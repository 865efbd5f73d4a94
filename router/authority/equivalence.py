"""The equivalence of a declaration with the existing exchange or queue, in RabbitMQ's order and words."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.amqp.errors import amqp_error
from penstock.amqp.values import type_name
from router.model.fields import shown, typed
from router.model.records import Arguments


def check_field(subject: object, name: str, received: object, current: object) -> None:
    """406 unless a property is unchanged; `subject` is the name of the queue or exchange in reply texts."""
    if typed(received) != typed(current):
        raise _inequivalent(subject, name, _alone(received), _alone(current))


def check_arguments(subject: object, names: Iterable[str], received: Arguments, current: Arguments) -> None:
    """406 unless each of the named arguments is unchanged, or absent from both declarations."""
    for name in names:
        if name in received and name in current:
            check_field(subject, name, received[name], current[name])
        elif name in received:
            raise _inequivalent(subject, name, _with_type(received[name]), "none")
        elif name in current:
            raise _inequivalent(subject, name, "none", _with_type(current[name]))


def _inequivalent(subject: object, name: str, received: str, current: str) -> Exception:
    return amqp_error(406, f"inequivalent arg '{name}' for {subject}: received {received} but current is {current}")


def _alone(value: object) -> str:
    return "none" if value is None else f"'{shown(value)}'"


def _with_type(value: object) -> str:
    return f"the value '{shown(value)}' of type '{type_name(value)}'"
