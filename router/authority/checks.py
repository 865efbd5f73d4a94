"""Checks shared by several operations, each with RabbitMQ's reply code and text."""

from __future__ import annotations

from penstock.amqp.errors import AMQPError, amqp_error
from router.authority import equivalence, queue_arguments
from router.model.delaying import delay_queue_of
from router.model.hashing import CONSISTENT_HASH, HASH_HEADER, HASH_PROPERTY, check_hashed
from router.model.matching import INDEXES
from router.model.records import DEFAULT_EXCHANGE, DELAYED_MESSAGE, DELAYED_TYPE, Arguments, Exchange, Queue

RESERVED = "amq."
NAME_BYTES_MAX = 255
"""A name is a short string (AMQP 0-9-1, 4.2.5.3)."""

EXCHANGE_ARGUMENTS = frozenset(("alternate-exchange", DELAYED_TYPE, HASH_HEADER, HASH_PROPERTY))
"""The arguments of exchanges with a meaning; others are only accepted and kept."""


def stripped(name: str) -> str:
    """Return a name without line breaks, which RabbitMQ drops as well."""
    return name.replace("\r", "").replace("\n", "")


def missing(subject: object) -> AMQPError:
    """Return the 404 for an exchange or a queue that does not exist."""
    return amqp_error(404, f"no {subject}")


def check_not_default(exchange: str) -> None:
    """403 for the default exchange."""
    if exchange == DEFAULT_EXCHANGE:
        raise amqp_error(403, "operation not permitted on the default exchange")


def check_new_name(kind: str, name: str) -> None:
    """403 for a name that is reserved for the server, 406 for an invalid one."""
    if name.startswith(RESERVED):
        raise amqp_error(403, f"{kind} name '{name}' contains reserved prefix 'amq.*'")
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise amqp_error(406, f"{kind} name '{name}' is not UTF-8") from None
    if len(data) > NAME_BYTES_MAX:
        raise amqp_error(406, f"{kind} name of {len(data)} bytes is longer than {NAME_BYTES_MAX}")


def check_exchange_arguments(exchange: Exchange) -> None:
    """406 for arguments that an exchange of its type cannot have."""
    if exchange.type == DELAYED_MESSAGE:
        if exchange.arguments.get(DELAYED_TYPE) not in (*INDEXES,):
            raise amqp_error(406, f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
        if len(delay_queue_of(exchange.name).encode()) > NAME_BYTES_MAX:
            raise amqp_error(406, f"the name of {exchange} is too long for its delay queue")
    if exchange.routing_type == CONSISTENT_HASH:
        try:
            check_hashed(exchange.arguments)
        except ValueError as error:
            raise amqp_error(406, str(error)) from None


def check_access(queue: Queue, connection: str | None) -> None:
    """405 for the exclusive queue of another connection."""
    if queue.owner is not None and queue.owner != connection:
        raise _locked(queue)


def check_equivalent(queue: Queue, durable: bool, auto_delete: bool, owner: str | None, arguments: Arguments) -> None:
    """405 or 406 unless a declaration is equivalent to an existing queue."""
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
