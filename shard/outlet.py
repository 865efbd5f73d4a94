"""What all consumers of a connection may be sent together: their socket is one.

      open ──(so much is under way)──▶ shut: who would be next sleeps here ──(half of it has arrived)──▶ open: they wake

What is under way to a consumer that leaves has room again at once: nobody would say that it has arrived.
"""

from __future__ import annotations

from shard.consumer_cy import Consumer
from shard.segment_cy import Range


class Outlet:
    """`window` is what may still be sent, octets; to each consumer no more than `of_consumer` may be under way."""

    __slots__ = ("__weakref__", "half", "of_consumer", "sleepers", "window")

    def __init__(self, octets: int, of_consumer: int) -> None:
        self.window = octets
        self.half = octets // 2
        self.of_consumer = of_consumer
        self.sleepers: dict[Consumer, None] = {}

    def take(self, consumer: Consumer, count: int) -> list[Range]:
        """What a consumer takes from its queue within both windows."""
        of_consumer = consumer.window
        window = consumer.window = min(of_consumer, self.window)
        try:
            taken: list[Range] = consumer.take(count)
        finally:  # a message may not be readable
            sent = window - consumer.window
            consumer.window = of_consumer - sent
            self.window -= sent
        return taken

    def leaves(self, consumer: Consumer) -> None:
        """A consumer is gone, or gets nothing more."""
        self.sleepers.pop(consumer, None)
        self.window += self.of_consumer - consumer.window

    def woken(self) -> list[Consumer]:
        """Those who slept, if they need not any more."""
        if self.window < self.half or not self.sleepers:
            return []
        woken = list(self.sleepers)
        self.sleepers.clear()
        return woken
