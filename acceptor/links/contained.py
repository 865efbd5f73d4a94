"""Isolation of clients: an error in the work for one of them, in a turn that has brought answers and room to many, ends
that client alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")


class Breakable(Protocol):
    """A connection, or one of its channels."""

    def broken(self, error: Exception) -> None:
        """End it because of a bug in the broker."""
        ...


B = TypeVar("B", bound=Breakable)


def contained(act: Callable[Concatenate[B, P], None]) -> Callable[Concatenate[B, P], None]:
    """Wrap a method so that it raises nothing to its caller: its object is `broken` instead."""

    @wraps(act)
    def begun(what: B, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            act(what, *args, **kwargs)
        except Exception as error:
            what.broken(error)

    return begun
