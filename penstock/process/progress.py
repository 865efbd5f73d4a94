"""Progress of a long operation: a sign of life and a log line each second."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from penstock.node.logs import get_logger
from penstock.process.pulse import Pulse

REPORT_SECONDS = 1.0
CHECK_EVERY = 1000
"""Rows between two checks of the time."""

T = TypeVar("T")

log = get_logger()


class Progress:
    """Progress of one operation; `event` is its log line, `counted` the name of its count."""

    def __init__(self, pulse: Pulse, event: str, counted: str) -> None:
        self._pulse = pulse
        self._event = event
        self._counted = counted
        self._began = self._reported = time.monotonic()

    def come_to(self, count: int) -> None:
        """Report that `count` are done, if a second has passed since the last report."""
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._pulse.beat()
            log.info(self._event, **{self._counted: count}, seconds=round(now - self._began, 1))

    def through(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield the rows, reporting their number on the way."""
        for number, row in enumerate(rows):
            if number % CHECK_EVERY == 0:
                self.come_to(number)
            yield row
