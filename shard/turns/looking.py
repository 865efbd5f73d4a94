"""Requests that check before they change anything.

Such a request is a generator. Up to its `yield` it only checks, and may refuse. An exception raised there has changed
nothing: the reply is INTERNAL_ERROR, which ends the client's connection, and the rest of the turn goes on. From the
`yield` on the request changes state, and an exception ends the shard (`penstock.node.failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from penstock.node.logs import get_logger
from shard.turns.link import Link

log = get_logger()

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741

Looking = Generator[None, None, None]


def looks_first(
    request: Callable[Concatenate[O, Link, int, P], Looking],
) -> Callable[Concatenate[O, Link, int, P], None]:
    """Turn such a generator into an operation: a method that takes a link, the request's number and its arguments."""

    @wraps(request)
    def act(owner: O, link: Link, number: int, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            steps = request(owner, link, number, *args, **kwargs)
            next(steps, None)
        except Exception as error:
            log.error("request failed before it changed anything", request=request.__name__, arguments=args,
                      sender=link.identity.decode(), exc_info=error)  # fmt: skip
            link.refuse(number, 541, "internal error")
            return
        next(steps, None)

    return act
