"""The method that a channel carries out, while it awaits an answer or room."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from acceptor.links.unacked_cy import Settlements


class Uncommitted(Protocol):
    """The settlements of a transaction, which have not been sent."""

    @property
    def journal(self) -> bytearray: ...

    @property
    def settlements(self) -> list[Settlements]: ...


class Running:
    """A method under way: the generator of its requests, which `begin` makes anew, and whether it waits for room at
    gates, not for an answer.

    `committing` is the transaction that it commits, until that leaves for its shards.
    """

    __slots__ = ("at_gates", "begin", "committing", "handler")

    def __init__(
        self, handler: Generator[Any, Any, None], begin: Callable[[], Generator[Any, Any, None] | None]
    ) -> None:  # fmt: skip
        self.handler = handler
        self.begin = begin
        self.at_gates = False
        self.committing: Uncommitted | None = None

    def begin_again(self) -> None:
        """Begin anew: a right that the method needs was not known. Methods ask for rights before they do anything."""
        handler = self.begin()
        assert handler is not None
        self.handler = handler
