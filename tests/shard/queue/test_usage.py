"""The usage of a queue, and its deletion for want of use."""

from __future__ import annotations

from shard.contents.queue_cy import NEVER
from tests.shard.making import queue_of


def test_an_unused_queue_is_forgotten_when_it_was_to_be_kept_no_longer() -> None:
    queue = queue_of(now=5, expires=1)
    assert not queue.is_forgotten(1004) and queue.is_forgotten(1005)
    queue.usage.last = 6
    assert not queue.is_forgotten(1005)
    assert not queue_of().is_forgotten(NEVER)


def test_auto_delete_is_armed_by_the_first_consumer() -> None:
    queue = queue_of(auto_delete=True)
    assert not queue.is_left()
    queue.usage.had_consumers = True
    assert queue.is_left()
    other = queue_of()
    other.usage.had_consumers = True
    assert not other.is_left()
