"""Requests that check before they change anything.

Such a request is a generator. Up to its `yield` it only checks, and may refuse. An exception raised there has changed
nothing: the reply is INTERNAL_ERROR, which ends the client's connection, and the rest of the turn goes on. From the
`yield` on the request changes state, and an exception ends the shard (`penstock.node.failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import TypeVar

from penstock.bus.to_shard import Request
from penstock.node.logs import get_logger
from shard.turns.link import Link

log = get_logger()

O = TypeVar("O")  # noqa: E741
R = TypeVar("R", bound=Request)

Checking = Generator[None, None, None]


def checks_first(handle: Callable[[O, Link, R], Checking]) -> Callable[[O, Link, R], None]:
    """Turn such a generator into a method that handles a request of a link."""

    @wraps(handle)
    def act(owner: O, link: Link, request: R) -> None:
        try:
            steps = handle(owner, link, request)
            next(steps, None)
        except Exception as error:
            log.error("request failed before it changed anything", request=request, sender=link.identity.decode(),
                      exc_info=error)  # fmt: skip
            link.refuse(request.request, 541, "internal error")
            return
        next(steps, None)

    return act
