"""Work that would keep the acceptor waiting, done elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    """Runs `work` elsewhere, then `done`, here, with its result. `work` raises nothing."""

    def __call__(self, work: Callable[[], T], done: Callable[[T], None], /) -> None: ...


def at_once(work: Callable[[], T], done: Callable[[T], None], /) -> None:
    """Run both functions here, for lack of a background."""
    done(work())
