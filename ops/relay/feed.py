"""A source of messages that is no queue: a file, or a queue that is looked at and keeps its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ops.errors import CommandError
from ops.relay.delivery import Delivery
from ops.relay.events import SourceEvents

BYTES_MOST = 64 * 1024 * 1024
"""Bytes of bodies that may be unacked; one message may be, whatever its size."""


class Feed:
    """Delivers messages on the relay's loop, at most `prefetch` and BYTES_MOST unacked, with the tags 1, 2, 3, …

    `position` is the number of messages from the first on that are acked, or that are not among those `chosen`.
    """

    def __init__(
        self,
        deliveries: Iterator[Delivery],
        total: int,
        prefetch: int,
        chosen: Callable[[Delivery], bool] = lambda _: True,
    ) -> None:
        """`deliveries` may raise CommandError: the relay fails with its text. `total` is how many there are."""
        self._chosen = chosen
        self._deliveries = deliveries
        self._total = total
        self._prefetch = prefetch
        self._tag = self.position = 0
        self._acked: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._unacked_bytes = 0
        self._exhausted = self._waking = False
        self._loop: Any = None
        self._events: SourceEvents

    def attach(self, loop: Any, events: SourceEvents) -> None:
        """Deliver on a loop, to a receiver of events."""
        self._loop, self._events = loop, events

    def start(self) -> None:
        """Deliver, once the loop runs."""
        self._loop.add_callback_threadsafe(self._begin)

    def ack(self, tag: int) -> None:
        """Ack a delivery; a further one takes its place, in a later pass of the loop."""
        self._pass(tag)
        if not self._waking:
            self._waking = True
            self._loop.add_callback_threadsafe(self._wake)

    def count(self, counted: Callable[[int], None]) -> None:
        """Say how many messages are still to come."""
        remaining = 0 if self._exhausted else self._total - self._tag
        self._loop.add_callback_threadsafe(lambda: counted(remaining))

    def close(self) -> None:
        """End."""
        self._exhausted = True
        self._events.ended()

    def _begin(self) -> None:
        self._events.up()
        self._events.ready(self._total)
        self._deliver()

    def _wake(self) -> None:
        self._waking = False
        self._deliver()

    def _deliver(self) -> None:
        while not self._exhausted and self._tag - self.position < self._prefetch and self._unacked_bytes < BYTES_MOST:
            try:
                delivery = next(self._deliveries, None)
            except CommandError as error:
                self._exhausted = True
                self._events.failed(str(error))
                return
            if delivery is None:
                self._exhausted = True
                return
            self._tag += 1
            delivery.tag = self._tag
            if self._chosen(delivery):
                self._sizes[self._tag] = len(delivery.body)
                self._unacked_bytes += len(delivery.body)
                self._events.delivered(delivery)
            else:
                self._pass(self._tag)

    def _pass(self, tag: int) -> None:
        self._acked.add(tag)
        self._unacked_bytes -= self._sizes.pop(tag, 0)
        while self.position + 1 in self._acked:
            self.position += 1
            self._acked.remove(self.position)
