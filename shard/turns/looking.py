"""Requests that look before they change anything.

Such a request is a generator. Up to its `yield` it only looks, at most it refuses; what it raises there has changed
nothing: who asked is answered INTERNAL_ERROR, which ends its connection, and the rest of the turn goes on. From the
`yield` on it changes, and what it raises ends the shard (`penstock.node.failures`).
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
    """The request as an operation: of an owner, for a link, with its number and what else is said with it."""

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
