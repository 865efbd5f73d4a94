# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What all consumers of a connection may be sent together: their socket is one.

      open ──(so much is under way)──▶ shut: who would be next sleeps here ──(half of it has arrived)──▶ open: they wake

What is under way to a consumer that leaves has room again at once: nobody would say that it has arrived.
"""

from __future__ import annotations

from typing import Any


class Outlet:
    """`window` is what may still be sent, octets; to each consumer no more than `of_consumer` may be under way."""

    def __init__(self, octets: int, of_consumer: int) -> None:
        self.window = octets
        self.half = octets // 2
        self.of_consumer = of_consumer
        self.sleepers: dict[Any, None] = {}

    def leaves(self, consumer: Any, window: int) -> None:
        """A consumer is gone, or gets nothing more; `window` is what it may still be sent."""
        self.sleepers.pop(consumer, None)
        self.window += self.of_consumer - window

    def woken(self) -> list[Any]:
        """Those who slept, if they need not any more."""
        if self.window < self.half or not self.sleepers:
            return []
        woken = list(self.sleepers)
        self.sleepers.clear()
        return woken
