"""Requests that a handler yields when it needs an answer from another process, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from acceptor.gates.gate import Gate
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.bus.to_shard import Request

INTERNAL_ERROR = 541
"""A shard's code for a request that failed before changing anything (shard/turns/checking.py): ends the connection."""


class Failing(Protocol):
    """A connection, as far as an error can end it."""

    def fail(self, error: AMQPError) -> None: ...


@dataclass(frozen=True, slots=True)
class ToRouter:
    """A request to the router."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToShard:
    """A request to a shard."""

    shard: int
    request: Request


@dataclass(frozen=True, slots=True)
class AtGates:
    """Wait until any of these gates has room, ahead of all other waiting channels."""

    gates: Sequence[Gate]


@dataclass(frozen=True, slots=True)
class Until:
    """Wait for an event in this acceptor: `start` receives a callback to call, with any value, once the event has
    occurred.
    """

    start: Callable[[Callable[[Any], None]], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A result or an error ([reply code, text]); indexes in the result point into `parts`."""

    result: Any
    error: Sequence[Any] | None
    parts: Sequence[Any] = ()


Handling = Generator[ToRouter | ToShard | AtGates | Until, Answer, None]
Asking = Generator[ToRouter | ToShard, Answer, Any]


def ask_router(request: str, /, **arguments: Any) -> Asking:
    """Return the router's result. AMQPError if the router refuses."""
    answer = yield ToRouter(request, arguments)
    return _result(answer)


def ask_shard(shard: int, request: Request, about: str = "") -> Asking:
    """Return a shard's result. AMQPError if the shard refuses; `about` names the queue in the text if it is gone by
    then.
    """
    answer = yield ToShard(shard, request)
    if about and answer.error is not None and answer.error[0] == 404:
        raise amqp_error(404, f"no {about}")
    return _result(answer)


def has_failed(connection: Failing, error: Sequence[Any] | None) -> bool:
    """Whether a shard has failed at a connection's request (541); then end the connection, even if nothing awaits the
    answer.
    """
    if error is None or error[0] != INTERNAL_ERROR:
        return False
    connection.fail(amqp_error(error[0], error[1]))
    return True


def _result(answer: Answer) -> Any:
    if answer.error is not None:
        raise amqp_error(answer.error[0], answer.error[1])
    return answer.result
