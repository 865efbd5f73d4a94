"""Consumers, compiled and plain: grants, limits of channels and users, and the time between settlements. Settling
itself is tested against a model with a queue (tests/shard/contents/test_queue_cy.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import both_ways

Load = Callable[[str], ModuleType]
NAME = "shard.queue.consumer_cy"
UNLIMITED = 1 << 62
ACK, REQUEUE = 0, 1
WHOLE = 3 + 14 + 1 + 64
"""The whole bytes of a message of `filled`."""


def row(consumer: int, sequence: int, count: int, kind: int) -> bytes:
    return struct.pack("<QQII", consumer, sequence, count, kind)


def filled(load: Load, count: int = 10) -> Any:
    """Return a queue of messages with a body of one byte."""
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for _ in range(count):
        builder.add(b"\0\1q", bytes(14), b"x", 0)
    queue = load("shard.contents.queue_cy").Queue(0, None)
    queue.enqueue(builder.finish(), 0, count)
    return queue


def consumer_of(load: Load, queue: Any, group: Any, id: int = 1, prefetch: int = 0, no_ack: bool = False) -> Any:
    consumer = load(NAME).Consumer(id, queue, no_ack, prefetch, group, "link")
    consumer.window = 10_000
    return consumer


@both_ways
def test_where_the_acceptor_keeps_the_limit_a_consumer_is_sent_what_was_granted(load: Load) -> None:
    group = load(NAME).Group(-1)
    consumer = consumer_of(load, filled(load), group)
    assert (consumer.credit(), consumer.lacks_grant(), group.is_limited()) == (0, True, True)
    group.granted = 3
    assert (consumer.credit(), consumer.lacks_grant()) == (3, False)
    (item,) = consumer.pop(2)
    assert (item.count, group.granted, consumer.credit()) == (2, 1, 1)
    consumer.settle(item.sequence, 2, ACK)
    assert group.granted == 1, "only its acceptor grants more"


@both_ways
def test_a_grant_is_lacking_only_where_nothing_else_is(load: Load) -> None:
    module = load(NAME)

    def lacking(limit: int = -1, bytes_limit: int = 0, **changes: Any) -> bool:
        group = module.Group(limit, 0, bytes_limit, True)
        consumer = consumer_of(load, filled(load), group, prefetch=2)
        group.granted = 2
        consumer.pop(1)
        group.granted = 0
        for name, value in changes.items():
            setattr(consumer, name, value)
        lacks: bool = consumer.lacks_grant()
        return lacks

    assert lacking()
    assert not lacking(limit=0) and not lacking(limit=5)
    assert not lacking(bytes_limit=WHOLE)
    assert not lacking(active=False) and not lacking(window=0) and not lacking(prefetch=1)


@both_ways
def test_a_user_at_a_limit_has_all_its_consumers_wait_but_those_without_acks(load: Load) -> None:
    module, queue = load(NAME), filled(load)
    asleep: dict[Any, None] = {}
    hand = module.Hand("ann", asleep)
    hand.count_limit = 3
    groups = [module.Group(0, number, 0, True) for number in range(2)]
    for group in groups:
        group.join(hand)
    one, other = (consumer_of(load, queue, group, id) for id, group in enumerate(groups))
    free = consumer_of(load, queue, groups[0], 2, no_ack=True)
    assert (one.credit(), other.credit()) == (3, 3)
    one.pop(3)
    assert (one.credit(), other.credit(), free.credit()) == (0, 0, UNLIMITED)
    assert hand.is_full() and (hand.count, hand.nbytes) == (3, 3 * WHOLE)
    for consumer in (other, free):
        consumer.sleep_if_user_is_full()
    assert (list(hand.sleepers), list(asleep)) == ([other], [hand])
    other.rest()
    assert not hand.sleepers
    one.settle(0, 1, REQUEUE)
    assert (other.credit(), hand.count, hand.nbytes) == (1, 2, 2 * WHOLE)


@both_ways
def test_unacked_messages_from_before_count_once_in_the_hand(load: Load) -> None:
    module = load(NAME)
    group, hand = module.Group(0, 0, 0, True), module.Hand("ann", {})
    consumer = consumer_of(load, filled(load), group)
    consumer.pop(4)
    for _ in range(2):
        group.join(hand)
    assert (hand.count, hand.nbytes) == (4, 4 * WHOLE)
    consumer.let_go_all()
    assert (hand.count, hand.nbytes) == (0, 0)


@both_ways
def test_bytes_are_counted_only_where_they_are_weighed(load: Load) -> None:
    group = load(NAME).Group(0)
    consumer = consumer_of(load, filled(load), group)
    consumer.pop(4)
    assert (group.outstanding, group.nbytes, consumer.nbytes) == (4, 0, 0)


@both_ways
def test_what_is_given_back_may_be_claimed_and_does_not_count_as_a_delivery(load: Load) -> None:
    """As when the queue moves, or when the client still has the message."""
    queue, module = filled(load, 2), load(NAME)
    queue.configure(-1, False, 0)  # a message that is requeued once is dropped
    group = module.Group(0, 0, 0, True)
    consumer = consumer_of(load, queue, group)
    consumer.pop(2)
    consumer.give_back_all()
    assert (queue.ready, group.outstanding, group.nbytes) == (2, 0, 0)
    assert consumer.claim(0, 5, False) == 2
    assert (queue.unacked, group.outstanding, group.nbytes) == (2, 2, 2 * WHOLE)
    assert consumer.claim(0, 5, False) == 0, "it is unacked already"
    assert consumer.requeue_all() == 2
    assert (queue.ready, queue.totals.dropped) == (0, 2)


@both_ways
@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=20))
def test_the_usual_time_between_settlements_follows_them_slowly_upwards(load: Load, intervals: list[int]) -> None:
    """One long interval at most doubles it, since the consumer may have had no messages."""
    consumer = consumer_of(load, filled(load), load(NAME).Group(0))
    now = 1_000_000
    consumer.record_settled(now)
    assert consumer.usual == 0, "nothing is known yet"
    for number, interval in enumerate(intervals):
        before = consumer.usual
        now += interval
        consumer.record_settled(now)
        assert consumer.settled_at == now
        if number:
            assert min(before, interval) <= consumer.usual <= min(2 * before, max(before, interval))
            assert consumer.usual != before or interval in (before, before - 1)
        else:
            assert consumer.usual == interval


@both_ways
@pytest.mark.parametrize("rest", [0, 1, 23])
def test_rows_of_others_and_of_nothing_settle_nothing(load: Load, rest: int) -> None:
    module, queue = load(NAME), filled(load)
    consumer, other = (consumer_of(load, queue, module.Group(0), id) for id in (1, 2))
    consumer.pop(2)
    assert module.settle_rows(b"", {1: consumer}) == {}
    assert module.settle_rows(row(1 << 40, 0, 2, ACK), {1: consumer}) == {}
    assert module.settle_rows(row(2, 0, 2, ACK), {1: consumer, 2: other}) == {}, "they are another consumer's"
    assert (queue.unacked, queue.totals.acked) == (2, 0)
    rows = row(1, 1, 9, ACK) + row(1, 0, 1, ACK)[:rest]
    assert module.settle_rows(rows, {1: consumer, 2: other}) == {consumer: None}
    assert (queue.unacked, queue.totals.acked) == (1, 1), "a row that is cut short is none"


@both_ways
def test_a_message_larger_than_its_window_is_sent_all_the_same(load: Load) -> None:
    """The window limits the bytes sent before a report, not the size of a message."""
    consumer = consumer_of(load, filled(load), load(NAME).Group(0))
    consumer.window = 1
    assert [item.count for item in consumer.pop(5)] == [1]
    assert consumer.window == 1 - WHOLE
    assert consumer.credit() == 0
