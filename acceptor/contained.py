"""The border between clients: what one of them has made the acceptor do, in a turn that has brought answers and room to
many, fails for that one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")


class Breakable(Protocol):
    """A connection, or one of its channels."""

    def broken(self, error: Exception) -> None:
        """End it for a bug of ours."""
        ...


B = TypeVar("B", bound=Breakable)


def contained(act: Callable[Concatenate[B, P], None]) -> Callable[Concatenate[B, P], None]:
    """A method that raises nothing to who calls it: what it is about is `broken` instead."""

    @wraps(act)
    def begun(what: B, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            act(what, *args, **kwargs)
        except Exception as error:
            what.broken(error)

    return begun
