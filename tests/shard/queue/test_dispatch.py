"""Dispatch of ready messages to consumers (AMQP 0-9-1, 3.1.8 and 4.7), over compiled and plain queues alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard.queue.dispatch import ALTERNATE, Ring
from tests.twins import both_ways, load_compiled, load_plain

NAME = "shard.contents.queue_cy"
Load = Callable[[str], ModuleType]
PLENTY = 10**9
WEIGHT = 64


class Line:
    """A queue, and its ring of consumers. Messages have no body unless a size is given."""

    def __init__(self, load: Load, single: bool = False) -> None:
        self.module = load("shard.queue.consumer_cy")
        self.queue = load(NAME).Queue(0, None)
        self.ring = Ring(single)
        self.builder = load("penstock.batch.batch_cy").BatchBuilder

    def publish(self, count: int, size: int = 0) -> None:
        builder = self.builder()
        for _ in range(count):
            builder.add(b"\0\0", b"", bytes(size), 0)
        self.queue.enqueue(builder.finish(), 0, count)

    def consumer(
        self, id: int, prefetch: int = 0, no_ack: bool = False, window: int = PLENTY, group: Any = None,
        priority: int = 0,
    ) -> Any:  # fmt: skip
        consumer = self.module.Consumer(id, self.queue, no_ack, prefetch, group or self.module.Group(0), None)
        consumer.window = window
        consumer.priority = priority
        self.ring.add(consumer)
        return consumer

    def settle(self, consumer: Any, sequence: int, count: int = 1) -> None:
        """Settle as the shard does: wake every consumer that may have credit now."""
        consumer.settle(sequence, count, 0)
        if consumer.group.limit:
            for sleeper in consumer.group.sleepers:
                self.ring.wake(sleeper)
            consumer.group.sleepers.clear()
        self.ring.wake(consumer)

    def deliver(self) -> list[int]:
        """Deliver messages; return the consumers' ids in the order of the messages they got."""
        got: dict[int, int] = {}
        for consumer, item in self.ring.deliver(self.queue):
            for sequence in range(item.sequence, item.sequence + item.count):
                assert sequence not in got
                got[sequence] = consumer.id
        return [got[sequence] for sequence in sorted(got)]


@both_ways
def test_few_messages_alternate_one_by_one(load: Load) -> None:
    line = Line(load)
    for id in 1, 2, 3:
        line.consumer(id)
    line.publish(7)
    assert line.deliver() == [1, 2, 3, 1, 2, 3, 1]
    line.publish(4)
    assert line.deliver() == [2, 3, 1, 2]
    line.publish(1)
    assert line.deliver() == [3]


@both_ways
def test_many_messages_are_shared_in_equal_pieces(load: Load) -> None:
    line = Line(load)
    for id in 1, 2, 3:
        line.consumer(id)
    line.publish(3000)
    got = line.deliver()
    assert Counter(got) == {1: 1000, 2: 1000, 3: 1000}
    assert sum(a != b for a, b in pairwise(got)) == 2


@pytest.mark.parametrize("count", [1, ALTERNATE, ALTERNATE + 1, 1000])
@both_ways
def test_prefetch_is_never_exceeded_and_always_used(load: Load, count: int) -> None:
    line = Line(load)
    limits = {1: 1, 2: 5, 3: 10}
    consumers = {id: line.consumer(id, prefetch) for id, prefetch in limits.items()}
    line.publish(count)
    got = Counter(line.deliver())
    assert sum(got.values()) == min(count, 16)
    assert all(got[id] <= limit for id, limit in limits.items())
    assert {id: len(consumer.outstanding) for id, consumer in consumers.items()} == {id: got[id] for id in limits}
    assert line.deliver() == []


@both_ways
def test_who_settles_is_served_next(load: Load) -> None:
    line = Line(load)
    one, two = line.consumer(1, prefetch=1), line.consumer(2, prefetch=1)
    line.publish(5)
    assert line.deliver() == [1, 2]
    line.settle(two, 1)
    assert line.deliver() == [2]
    line.settle(one, 0)
    line.settle(two, 2)
    assert line.deliver() == [1, 2]


@both_ways
def test_how_long_it_usually_takes_to_settle(load: Load) -> None:
    """The usual time is known from the second settlement; a long one at most doubles it, short ones soon lower it."""
    consumer = Line(load).consumer(1)
    now, seen = 5000, []
    for took in (0, 64, 64, 1_000_000, 1_000_000, 300, 64, 64, 64, 0):
        now += took
        consumer.record_settled(now)
        assert consumer.settled_at == now
        seen.append(consumer.usual)
    assert seen == [0, 64, 64, 128, 256, 300, 182, 123, 94, 48]


@both_ways
def test_a_shared_prefetch_is_shared(load: Load) -> None:
    """With global set in basic.qos, the limit is the channel's."""
    line = Line(load)
    channel = line.module.Group(3)
    for id in 1, 2:
        line.consumer(id, group=channel)
    line.consumer(3, prefetch=2)
    line.publish(100)
    got = Counter(line.deliver())
    assert got[1] + got[2] == channel.outstanding == 3 and got[3] == 2


@pytest.mark.parametrize("count", [ALTERNATE, 1000])
@both_ways
def test_who_shares_a_prefetch_takes_turns(load: Load, count: int) -> None:
    """However much is ready, no consumer uses up the prefetch that it shares with the others of its channel."""
    line = Line(load)
    channel = line.module.Group(2)
    consumers = {id: line.consumer(id, group=channel) for id in (1, 2, 3)}
    line.publish(count)
    got: Counter[int] = Counter()
    for _ in range(6):
        got.update(line.deliver())
        for consumer in consumers.values():
            line.settle(consumer, 0, count)
    assert sum(got.values()) == 12 and min(got[id] for id in consumers) >= 3


@both_ways
def test_no_ack_knows_no_prefetch(load: Load) -> None:
    line = Line(load)
    line.consumer(1, prefetch=1, no_ack=True)
    line.publish(100)
    assert len(line.deliver()) == 100
    assert (line.queue.ready, line.queue.unacked, line.queue.totals.acked) == (0, 0, 100)


@both_ways
def test_a_window_ends_a_turn_and_not_the_queue(load: Load) -> None:
    """The window bounds what the consumer's acceptor has not written yet: bodies, and the weights of messages."""
    line = Line(load)
    slow, quick = line.consumer(1, window=1000), line.consumer(2)
    line.publish(50, size=100)
    got = Counter(line.deliver())
    assert got[1] + got[2] == 50
    assert got[1] == 7
    assert slow.window <= 0 < quick.window
    slow.window += 1000
    line.ring.wake(slow)
    line.publish(2, size=100)
    assert set(line.deliver()) == {1, 2}


@both_ways
def test_the_inactive_are_passed_over(load: Load) -> None:
    line = Line(load)
    one = line.consumer(1)
    line.consumer(2)
    one.active = False
    line.publish(40)
    assert set(line.deliver()) == {2}
    one.active = True
    line.ring.wake(one)
    line.publish(2)
    assert sorted(line.deliver()) == [1, 2]


@both_ways
def test_nobody_loses_their_turn_when_someone_leaves(load: Load) -> None:
    line = Line(load)
    consumers = [line.consumer(id) for id in range(4)]
    line.publish(2)
    assert line.deliver() == [0, 1]
    line.ring.remove(consumers[0])
    line.publish(1)
    assert line.deliver() == [2]
    line.ring.remove(consumers[3])
    assert len(line.ring) == 2
    line.publish(4)
    assert line.deliver() == [1, 2, 1, 2]
    for gone in 1, 2:
        line.ring.remove(consumers[gone])
    line.publish(1)
    assert line.deliver() == [] and line.queue.ready == 1


@both_ways
def test_a_higher_priority_is_served_while_it_can_take_them(load: Load) -> None:
    line = Line(load)
    line.consumer(1, priority=-5)
    high = line.consumer(2, prefetch=2, priority=10)
    line.consumer(3)
    line.publish(1)
    assert line.deliver() == [2]
    line.publish(3)
    assert line.deliver() == [2, 3, 3]
    line.settle(high, 0)
    line.publish(2)
    assert line.deliver() == [2, 3]


@both_ways
def test_equals_of_the_highest_priority_take_turns(load: Load) -> None:
    line = Line(load)
    line.consumer(1)
    two, three = line.consumer(2, priority=1), line.consumer(3, priority=1)
    line.publish(5)
    assert line.deliver() == [2, 3, 2, 3, 2]
    for consumer in two, three:
        line.ring.remove(consumer)
    line.publish(1)
    assert line.deliver() == [1]
    assert len(line.ring.levels) == 1


@both_ways
def test_the_first_consumer_is_the_single_active_one(load: Load) -> None:
    line = Line(load, single=True)
    first = line.consumer(1, prefetch=3)
    line.consumer(2)
    line.consumer(3, priority=5)
    line.publish(20)
    assert line.deliver() == [1] * 3
    line.settle(first, 1)
    assert line.deliver() == [1]


@both_ways
def test_the_next_single_active_consumer_is_of_the_highest_priority(load: Load) -> None:
    line = Line(load, single=True)
    consumers = {id: line.consumer(id, priority=priority) for id, priority in ((1, 0), (2, 0), (3, 7), (4, 7))}
    order = []
    while len(line.ring):
        line.publish(1)
        (active,) = line.deliver()
        order.append(active)
        line.ring.remove(consumers[active])
    assert order == [1, 3, 4, 2]


@both_ways
def test_who_was_not_active_can_leave(load: Load) -> None:
    line = Line(load, single=True)
    line.consumer(1)
    line.ring.remove(line.consumer(2))
    line.publish(1)
    assert line.deliver() == [1]


@given(
    consumers=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.integers(-50, 3000),
            st.booleans(),
            st.sampled_from([None, 0, 1]),
            st.sampled_from([0, 0, 0, 7, -1]),
        ),
        max_size=5,
    ),
    limits=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    publishes=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 80)), min_size=1, max_size=5),
)
def test_all_that_can_be_delivered_is(
    consumers: list[tuple[int, int, bool, int | None, int]], limits: tuple[int, int], publishes: list[tuple[int, int]]
) -> None:
    """Each turn goes on until nothing is ready or no consumer has credit; compiled and plain serve the same."""
    served = []
    for load in load_compiled, load_plain:
        line = Line(load)
        groups = [line.module.Group(limit) for limit in limits]
        made = [
            line.consumer(id, prefetch, no_ack, window, None if group is None else groups[group], priority)
            for id, (prefetch, window, no_ack, group, priority) in enumerate(consumers)
        ]
        got = []
        for count, size in publishes:
            line.publish(count, size)
            got.append(line.deliver())
            assert line.queue.ready == 0 or not any(consumer.credit() for consumer in made)
            for consumer in made:
                assert not consumer.prefetch or len(consumer.outstanding) <= consumer.prefetch
                assert consumer.window >= -(max(consumers[consumer.id][1], 80) + WEIGHT)
            assert all(not group.limit or group.outstanding <= group.limit for group in groups)
        served.append(got)
    assert served[0] == served[1]


@given(count=st.integers(2, 5), publishes=st.lists(st.integers(1, ALTERNATE), min_size=1, max_size=12))
def test_equals_get_equal_shares(count: int, publishes: list[int]) -> None:
    """However messages trickle in, no consumer is ever more than one ahead."""
    line = Line(load_compiled)
    for id in range(count):
        line.consumer(id)
    got: Counter[int] = Counter(dict.fromkeys(range(count), 0))
    for published in publishes:
        line.publish(published)
        got.update(line.deliver())
        assert max(got.values()) - min(got.values()) <= 1
