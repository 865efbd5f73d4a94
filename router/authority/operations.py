"""The operations of the authority as requested over the bus: names, arguments, results, errors.

    operation          arguments                                                   result
    exchange_declare   vhost, name, type, passive, durable, auto_delete,           None
                       internal, arguments, user
    exchange_delete    vhost, name, if_unused                                      None
    exchange_bind      vhost, destination, source, key, arguments, user            None
    exchange_unbind    the same, without user                                      None
    queue_declare      vhost, name, passive, durable, exclusive, auto_delete,      name, queue_id, slot, shard
                       arguments, connection, user
    queue_lookup       vhost, name, connection                                     name, queue_id, slot, shard
    queue_bind         vhost, queue, source, key, arguments, connection, user      None
    queue_unbind       the same, without user                                      None
    queue_delete       queue_id                                                    None
    queue_place        vhost, name, shard | None                                   None
    move_report        queue_id, epoch, shard, incarnation, state, count, nbytes,  None
                       checksum, stop, reason
    connection_closed  connection                                                  queues
    hold_off           user, host, seconds, most, forget, reason                   None

An error is [reply code, text]; the text does not include the name of the code. A malformed request, or one that meets a
bug, gets 541.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.amqp.errors import AMQPError
from penstock.node.logs import get_logger
from router.authority.authority import Authority
from router.authority.hold_offs import hold_off

log = get_logger()

Types = type | tuple[type, ...]

_BINDING: dict[str, Types] = {"vhost": str, "source": str, "key": str, "arguments": dict}
_CONNECTION: dict[str, Types] = {"connection": (str, type(None))}
_USER: dict[str, Types] = {"user": (str, type(None))}

OPERATIONS: dict[str, tuple[Callable[..., Any], dict[str, Types]]] = {
    "exchange_declare": (
        Authority.exchange_declare,
        {
            **dict.fromkeys(("vhost", "name", "type"), str),
            **dict.fromkeys(("passive", "durable", "auto_delete", "internal"), bool),
            "arguments": dict,
            **_USER,
        },
    ),
    "exchange_delete": (Authority.exchange_delete, {"vhost": str, "name": str, "if_unused": bool}),
    "exchange_bind": (Authority.exchange_bind, {"destination": str, **_BINDING, **_USER}),
    "exchange_unbind": (Authority.exchange_unbind, {"destination": str, **_BINDING}),
    "queue_declare": (
        Authority.queue_declare,
        {
            **dict.fromkeys(("vhost", "name", "connection"), str),
            **dict.fromkeys(("passive", "durable", "exclusive", "auto_delete"), bool),
            "arguments": dict,
            **_USER,
        },
    ),
    "queue_lookup": (Authority.queue_lookup, {"vhost": str, "name": str, **_CONNECTION}),
    "queue_bind": (Authority.queue_bind, {"queue": str, **_BINDING, **_CONNECTION, **_USER}),
    "queue_unbind": (Authority.queue_unbind, {"queue": str, **_BINDING, **_CONNECTION}),
    "queue_delete": (Authority.queue_delete, {"queue_id": int}),
    "queue_place": (Authority.queue_place, {"vhost": str, "name": str, "shard": (int, type(None))}),
    "move_report": (
        Authority.move_report,
        {
            **dict.fromkeys(("queue_id", "epoch", "shard", "incarnation", "count", "nbytes", "checksum"), int),
            **dict.fromkeys(("state", "reason"), str),
            "stop": list,
        },
    ),
    "hold_off": (
        hold_off,
        {
            **dict.fromkeys(("user", "host", "reason"), str),
            **dict.fromkeys(("seconds", "most", "forget"), (int, float)),
        },
    ),
    "connection_closed": (Authority.connection_closed, {"connection": str}),
}


class Outcome(NamedTuple):
    """The outcome of a request: a result, or an error as [reply code, text]."""

    result: Any = None
    error: list[Any] | None = None


class Malformed(ValueError):
    """A request that no process of the node should send."""


def perform(authority: Authority, operation: object, arguments: object, request: str) -> Outcome:
    """Carry out an operation. `request` identifies the request among all of this run of the node.

    It raises only the error of a bug in the middle of a change: half a change must not be served.
    """
    before = authority.ledger.recorded
    try:
        act, accepted = _checked(operation, arguments)
        if operation == "queue_declare":
            accepted["request"] = request
        return Outcome(act(authority, **accepted))
    except AMQPError as error:
        log.debug("refused", operation=operation, request=request, code=error.code, text=error.text)
        return Outcome(error=[error.code, error.text])
    except Malformed as error:
        log.error("malformed request", operation=operation, request=request, problem=str(error))
        return Outcome(error=[541, f"malformed request: {error}"])
    except Exception:
        if authority.ledger.recorded != before:
            raise
        log.exception("request failed", operation=operation, request=request)
        return Outcome(error=[541, f"{operation} failed, the log has more"])


def _checked(operation: object, arguments: object) -> tuple[Callable[..., Any], dict[str, Any]]:
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise Malformed(f"no operation {operation!r}")
    if not isinstance(arguments, dict):
        raise Malformed("the arguments are not a map")
    act, wanted = OPERATIONS[operation]
    for name, types in wanted.items():
        if name not in arguments:
            raise Malformed(f"{name} is missing")
        if not isinstance(arguments[name], types):
            raise Malformed(f"{name} is of type {type(arguments[name]).__name__}")
    return act, {name: arguments[name] for name in wanted}
