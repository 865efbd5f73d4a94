"""The method that a channel carries out, while it awaits an answer or room."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from acceptor.links.unacked_cy import Settlements


class Uncommitted(Protocol):
    """The settlements of a transaction, which have not been sent."""

    @property
    def journal(self) -> bytearray: ...

    @property
    def settlements(self) -> list[Settlements]: ...


class Running:
    """A method under way: the generator of its requests, and whether it waits for room at gates, not for an answer.

    `committing` is the transaction that it commits, until that leaves for its shards.
    """

    __slots__ = ("at_gates", "committing", "handler")

    def __init__(self, handler: Generator[Any, Any, None]) -> None:
        self.handler = handler
        self.at_gates = False
        self.committing: Uncommitted | None = None
