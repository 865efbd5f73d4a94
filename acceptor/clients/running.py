"""The method that a channel carries out, while it awaits an answer or room."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


class Running:
    """A method under way: the generator of its requests, and whether it waits for room at gates, not for an answer."""

    __slots__ = ("at_gates", "handler")

    def __init__(self, handler: Generator[Any, Any, None]) -> None:
        self.handler = handler
        self.at_gates = False
