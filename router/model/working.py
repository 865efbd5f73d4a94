"""Work that pauses: generators that yield when their `Work` is used up, and continue once it has been refilled."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

R = TypeVar("R")
Working: TypeAlias = Generator[None, None, R]


def at_once(working: Working[R]) -> R:
    """Return the result of a generator with enough work to finish. AssertionError if it pauses."""
    try:
        next(working)
    except StopIteration as done:
        result: R = done.value
        return result
    raise AssertionError("paused with work left")
