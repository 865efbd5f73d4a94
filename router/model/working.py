"""Work that pauses: generators that yield where their `Work` is used up, and go on once it has been given more."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

R = TypeVar("R")
Working: TypeAlias = Generator[None, None, R]


def at_once(working: Working[R]) -> R:
    """The result of what has work enough."""
    try:
        next(working)
    except StopIteration as done:
        result: R = done.value
        return result
    raise AssertionError("paused with work left")
