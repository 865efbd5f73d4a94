"""The times at which written data is flushed to the disk, if commits do not wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# Seconds until a failed flush is retried.
RETRY_SECONDS = 1.0


class Flushes:
    """Flushes, one at a time: each covers everything written before it began, and begins at least `interval` seconds
    after the one before. With an interval of 0 there are none. `begin` begins one; `ended` is to be called at its end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, interval: float, begin: Callable[[], None]) -> None:
        self.loop = loop
        self.interval = interval
        self.begin = begin
        self._wanted = False
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._under_way = False
        self._failed = False

    def want(self, at_once: bool = False) -> None:
        """Data was written. With `at_once` the next flush does not wait for the interval, if the last did not fail."""
        self._wanted = True
        if at_once and self._due and not self._failed:
            self._due = 0.0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        if self.interval and self._timer is None and not self._under_way:
            self._timer = self.loop.call_at(max(self._due, self.loop.time()), self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._wanted, self._under_way = False, True
        self._due = self.loop.time() + self.interval
        self.begin()

    def ended(self, failed: bool) -> None:
        """The flush has ended; after a failure it is retried."""
        self._under_way = False
        self._failed = failed
        if failed:
            self._due = self.loop.time() + RETRY_SECONDS
        if failed or self._wanted:
            self.want()

    def stop(self) -> None:
        """Begin no more flushes."""
        self.interval = 0.0
        if self._timer is not None:
            self._timer.cancel()
