"""The order in which consumers are served (AMQP 0-9-1, 3.1.8 and 4.7; consumer priorities and single active consumers
are RabbitMQ's).

A consumer of a higher priority is served as long as it has credit; equals take turns. A consumer without credit is
*asleep*: it is skipped until a settlement, its window or its limits may have given it credit and wake it, so thousands
of consumers that wait for their own acks cost nothing to those being served. A consumer that wakes goes behind those
that are awake.

In a queue with a single active consumer only that one is ever awake. It is the first to come; when it goes, the oldest
one of the highest priority follows. In a later incarnation of the shard it is the one that was announced before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator

from shard.contents.queue_cy import Queue
from shard.contents.segment_cy import Range
from shard.queue.consumer_cy import Consumer

# Up to this many ready messages the consumers alternate message by message; above it each gets its share in one piece.
ALTERNATE = 16


class Level:
    """The consumers of one priority: their number, and those awake, in the order in which they are served."""

    __slots__ = ("awake", "members", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.members = 0
        self.awake: OrderedDict[Consumer, None] = OrderedDict()


class Ring:
    """The consumers of a queue. `levels` go from the highest priority to the lowest.

    `exclusive` is the consumer that admits no others, if there is one. `starved` are sleeping consumers that lack only
    a grant of their acceptor (see `Group`).
    """

    __slots__ = ("active", "consumers", "exclusive", "levels", "single", "starved")

    def __init__(self, single: bool = False) -> None:
        self.single = single
        self.active: Consumer | None = None
        self.exclusive: Consumer | None = None
        self.consumers: dict[Consumer, None] = {}
        self.levels: list[Level] = []
        self.starved: dict[Consumer, None] = {}

    def __len__(self) -> int:
        return len(self.consumers)

    def add(self, consumer: Consumer) -> None:
        """Add a consumer and wake it; in a queue with a single active consumer it may become the active one."""
        self.consumers[consumer] = None
        consumer.level = self.level(consumer.priority)
        consumer.level.members += 1
        if self.single and (self.active is None or (consumer.elected and not self.active.elected)):
            if self.active is not None:
                self.active.level.awake.pop(self.active, None)
            self.active = consumer
        self.wake(consumer)

    def order(self) -> None:
        """Sort the consumers by age, since they came back in another order."""
        self.consumers = dict.fromkeys(sorted(self.consumers, key=lambda consumer: consumer.age))

    def level(self, priority: int) -> Level:
        """The level of a priority, made on first use."""
        at = bisect_left(self.levels, -priority, key=lambda level: -level.priority)
        if at == len(self.levels) or self.levels[at].priority != priority:
            self.levels.insert(at, Level(priority))
        return self.levels[at]

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; if it was the active one, wake its successor."""
        del self.consumers[consumer]
        level: Level = consumer.level
        level.awake.pop(consumer, None)
        consumer.rest()
        self.starved.pop(consumer, None)
        level.members -= 1
        if not level.members:
            self.levels.remove(level)
        if consumer is self.active:
            self.active = max(self.consumers, key=lambda other: other.priority, default=None)
            if self.active is not None:
                self.wake(self.active)

    def wake(self, consumer: Consumer) -> None:
        """Wake a consumer that may have credit again."""
        if not consumer.cancelled and (consumer is self.active or not self.single):
            consumer.level.awake[consumer] = None
            if self.starved:
                self.starved.pop(consumer, None)

    def wait_for_group(self, consumer: Consumer) -> None:
        """Put a consumer to sleep until its group has room."""
        consumer.group.sleepers[consumer] = None
        if consumer.lacks_grant():
            self.starved[consumer] = None

    def deliver(self, queue: Queue) -> Iterator[tuple[Consumer, Range]]:
        """Hand out ready messages while any consumer has credit."""
        for level in self.levels:
            awake = level.awake
            while awake:
                if not queue.ready:
                    return
                alternate = queue.ready <= ALTERNATE and len(awake) > 1
                share = 1 if alternate else -(-queue.ready // len(awake))
                for _ in range(len(awake)):
                    consumer, _ = awake.popitem(last=False)
                    credit = consumer.credit()
                    if credit <= 0:
                        if consumer.group.is_limited():
                            self.wait_for_group(consumer)
                        consumer.sleep_if_user_is_full()
                        continue
                    outlet = consumer.outlet
                    if outlet is not None and outlet.window <= 0 and not outlet.may_send(consumer):
                        continue
                    awake[consumer] = None
                    taken = consumer.pop(min(share, credit))
                    for item in taken:
                        yield consumer, item
                    if not taken:
                        return  # the next messages are being read from the store
                    if not queue.ready:
                        return
