"""Who gets what is ready: consumers take turns, each as far as its credit goes (AMQP 0-9-1, 3.1.8 and 4.7)."""

from __future__ import annotations

from collections.abc import Iterator

from shard.queue_cy import Consumer, Queue, Range

# Up to this many ready messages the consumers alternate message by message; above it each gets its share in one piece.
ALTERNATE = 16


class Ring:
    """The consumers of a queue in the order in which they are served."""

    __slots__ = ("consumers", "turn")

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []
        self.turn = 0

    def __len__(self) -> int:
        return len(self.consumers)

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        index = self.consumers.index(consumer)
        del self.consumers[index]
        if index < self.turn:
            self.turn -= 1

    def deliver(self, queue: Queue) -> Iterator[tuple[Consumer, Range]]:
        """Hand out what is ready while any consumer has credit."""
        while queue.ready:
            count = len(self.consumers)
            eligible = [c for c in (self.consumers[(self.turn + i) % count] for i in range(count)) if c.credit() > 0]
            if not eligible:
                return
            share = 1 if queue.ready <= ALTERNATE else -(-queue.ready // len(eligible))
            passed: Consumer | None = None
            for consumer in eligible:
                credit = consumer.credit()
                if credit <= 0:  # others of its channel used what they share: next time it goes first
                    if passed is None:
                        passed = consumer
                    continue
                for item in consumer.take(min(share, credit)):
                    yield consumer, item
                if not queue.ready:
                    break
            if passed is None:
                self.turn = (self.consumers.index(consumer) + 1) % count
            else:
                self.turn = self.consumers.index(passed)
