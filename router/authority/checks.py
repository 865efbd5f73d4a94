"""Checks that several operations make, each with RabbitMQ's reply code and text."""

from __future__ import annotations

from penstock.amqp.errors import AMQPError, amqp_error
from router.authority import equivalence, queue_arguments
from router.model.records import DEFAULT_EXCHANGE, Arguments, Queue

RESERVED = "amq."
NAME_OCTETS_MAX = 255
"""A name is a short string (AMQP 0-9-1, 4.2.5.3)."""


def stripped(name: str) -> str:
    """A name without what clients left of a line's end."""
    return name.replace("\r", "").replace("\n", "")


def missing(subject: object) -> AMQPError:
    return amqp_error(404, f"no {subject}")


def check_not_default(exchange: str) -> None:
    if exchange == DEFAULT_EXCHANGE:
        raise amqp_error(403, "operation not permitted on the default exchange")


def check_new_name(kind: str, name: str) -> None:
    """403 for the names that are the server's to give, 406 for what is no name."""
    if name.startswith(RESERVED):
        raise amqp_error(403, f"{kind} name '{name}' contains reserved prefix 'amq.*'")
    try:
        octets = name.encode()
    except UnicodeEncodeError:
        raise amqp_error(406, f"{kind} name '{name}' is not UTF-8") from None
    if len(octets) > NAME_OCTETS_MAX:
        raise amqp_error(406, f"{kind} name of {len(octets)} octets is longer than {NAME_OCTETS_MAX}")


def check_access(queue: Queue, connection: str | None) -> None:
    """405 for the exclusive queue of another connection."""
    if queue.owner is not None and queue.owner != connection:
        raise _locked(queue)


def check_equivalent(queue: Queue, durable: bool, auto_delete: bool, owner: str | None, arguments: Arguments) -> None:
    """405 or 406 unless a declaration says what the queue is."""
    if queue.owner != owner:
        raise _locked(queue)
    equivalence.check_field(queue, "durable", durable, queue.durable)
    equivalence.check_field(queue, "auto_delete", auto_delete, queue.auto_delete)
    equivalence.check_arguments(queue, queue_arguments.COMPARED, arguments, queue.arguments)
    if queue_arguments.queue_type(arguments) != queue_arguments.queue_type(queue.arguments):
        equivalence.check_arguments(queue, ("x-queue-type",), arguments, queue.arguments)


def _locked(queue: Queue) -> AMQPError:
    return amqp_error(
        405,
        f"cannot obtain exclusive access to locked {queue}. It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration.",
    )
