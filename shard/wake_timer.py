"""A timer of the loop that runs at the earliest time asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.node.clock import now_us
from shard.contents.queue_cy import NEVER


class WakeTimer:
    """Calls `wake` once at the earliest of the times asked for since it last did; times in microseconds of the node's
    clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._at = NEVER
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, at: int) -> None:
        """Ask to be woken at a time; NEVER asks for nothing."""
        if at >= self._at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_later(max(at - now_us(), 0) / 1_000_000, self._run)

    def _run(self) -> None:
        self._timer, self._at = None, NEVER
        self._wake()
