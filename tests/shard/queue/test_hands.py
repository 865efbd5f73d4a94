"""Limits of each user's unacked messages on a shard: the parts of a limit, and the consumers woken below it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from penstock.memory.shared_rows import Use
from penstock.settings.limits import LimitSettings
from shard.contents.queue_cy import UNLIMITED, Queue
from shard.queue.consumer_cy import Consumer, Group, Hand
from shard.queue.hands import AT_ONCE, Hands


def asleep(hand: Hand, count: int) -> list[Consumer]:
    """Put consumers of a user to sleep; return them."""
    consumers = [Consumer(id, Queue(1, None), False, 0, Group(0), None) for id in range(count)]
    for consumer in consumers:
        hand.sleep(consumer)
    return consumers


def test_without_limits_nothing_is_counted() -> None:
    hands = Hands(LimitSettings(), 2)
    assert hands.of("ann") is None and not list(hands.uses())


@given(st.integers(-1, 100), st.integers(1, 8))
def test_parts_are_no_more_than_the_limit_or_a_message_each(limit: int, shards: int) -> None:
    hands = Hands(LimitSettings(user_unacked_messages=limit), shards)
    hand = hands.of("ann")
    if limit < 0:
        assert hand is None
        return
    assert hand is not None
    assert hand.count_limit * shards <= max(limit, shards) and (hand.count_limit > 0) == (limit > 0)


def test_users_have_hands_of_their_own_as_long_as_anyone_has_them() -> None:
    hands = Hands(LimitSettings(user_unacked_messages=20), 2)
    ann = hands.of("ann")
    assert ann is not None and hands.of("ann") is ann and hands.of("bob") is not ann
    ann.count = 3
    assert list(hands.uses()) == [Use("unacked-messages", "user", "ann", 3, 10)], "nobody has bob's"
    del ann
    gc.collect()
    assert not list(hands.uses())


def test_another_number_of_shards_changes_the_parts_of_present_hands() -> None:
    hands = Hands(LimitSettings(user_unacked_messages=20, user_unacked_bytes=1000), 2)
    ann = hands.of("ann")
    assert ann is not None and (ann.count_limit, ann.bytes_limit) == (10, 500)
    hands.share(5)
    assert (ann.count_limit, ann.bytes_limit) == (4, 200)


def test_only_limits_that_are_set_are_shown_as_used() -> None:
    hands = Hands(LimitSettings(user_unacked_bytes=1000), 1)
    ann = hands.of("ann")
    assert ann is not None and ann.count_limit == UNLIMITED
    ann.count, ann.nbytes = 5, 70
    assert list(hands.uses()) == [Use("unacked-bytes", "user", "ann", 70, 1000)]


def test_sleepers_wake_in_turn_some_at_a_time_until_the_limit_is_reached() -> None:
    hands = Hands(LimitSettings(user_unacked_messages=AT_ONCE + 2), 1)
    ann = hands.of("ann")
    assert ann is not None
    consumers = asleep(ann, 2 * AT_ONCE + 5)
    woken: list[Consumer] = []

    def takes_one(consumer: Consumer) -> None:
        woken.append(consumer)
        ann.count += 1

    assert hands.wake(takes_one)
    assert woken == consumers[:AT_ONCE]
    assert hands.wake(takes_one), "two more may be unacked"
    assert woken == consumers[: 2 * AT_ONCE]
    with capture_logs() as logs:
        for _ in range(3):
            assert not hands.wake(takes_one)
    assert logs == [
        {
            "event": "consumers wait, their user is at its unacked limit", "log_level": "warning", "user": "ann",
            "messages": 2 * AT_ONCE, "bytes": 0,
        }
    ], "said once"  # fmt: skip
    ann.count = 0
    assert hands.wake(takes_one)
    assert woken == consumers and not hands.asleep
    assert not hands.wake(takes_one)


@pytest.mark.parametrize("again", [False, True])
def test_a_consumer_that_falls_asleep_again_as_it_wakes_is_kept(again: bool) -> None:
    hands = Hands(LimitSettings(user_unacked_messages=1), 1)
    ann = hands.of("ann")
    assert ann is not None
    (consumer,) = asleep(ann, 1)
    wake: Callable[[Consumer], None] = ann.sleep if again else lambda _: None
    assert hands.wake(wake)
    assert (list(ann.sleepers) == [consumer]) == (ann in hands.asleep) == again


def test_one_user_at_its_limit_is_in_no_other_users_way() -> None:
    hands = Hands(LimitSettings(user_unacked_messages=1), 1)
    ann, bob = hands.of("ann"), hands.of("bob")
    assert ann is not None and bob is not None
    ann.count = 1
    asleep(ann, 1)
    consumers = asleep(bob, 1)
    woken: list[Consumer] = []
    assert hands.wake(woken.append)
    assert woken == consumers and list(hands.asleep) == [ann]
