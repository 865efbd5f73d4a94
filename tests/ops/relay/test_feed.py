"""A feed: how much it delivers at once, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ops.errors import CommandError
from ops.relay import feed as feeding
from ops.relay.delivery import Delivery
from ops.relay.feed import Feed


class Loop:
    """A loop that runs what it is given when the test says so."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add_callback_threadsafe(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def run(self) -> None:
        while self._callbacks:
            self._callbacks.pop(0)()


class Events:
    """What the feed reports."""

    def __init__(self) -> None:
        self.tags: list[int] = []
        self.total: int | None = None
        self.failure = ""

    def up(self) -> None:
        self.total = None

    def ready(self, count: int) -> None:
        self.total = count

    def delivered(self, delivery: Delivery) -> None:
        self.tags.append(delivery.tag)

    def failed(self, text: str) -> None:
        self.failure = text


def messages(count: int, then: str = "") -> Iterator[Delivery]:
    for number in range(1, count + 1):
        yield Delivery(0, "", "q", b"", b"%d" % number)
    if then:
        raise CommandError(then)


def started(feed: Feed) -> tuple[Loop, Events]:
    loop, events = Loop(), Events()
    feed.attach(loop, events)  # type: ignore[arg-type]
    feed.start()
    loop.run()
    return loop, events


def test_it_delivers_as_many_as_are_acked() -> None:
    feed = Feed(messages(5), 5, 2)
    loop, events = started(feed)
    assert (events.total, events.tags, feed.position) == (5, [1, 2], 0)
    feed.ack(2)
    loop.run()
    assert (events.tags, feed.position) == ([1, 2], 0)
    feed.ack(1)
    loop.run()
    assert (events.tags, feed.position) == ([1, 2, 3, 4], 2)


def test_large_messages_are_few_at_once_and_one_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "BYTES_MOST", 3)
    feed = Feed((Delivery(0, "", "q", b"", body) for body in (b"1", b"22", b"333333", b"4", b"5")), 5, 9)
    loop, events = started(feed)
    assert events.tags == [1, 2]
    feed.ack(1)
    loop.run()
    assert events.tags == [1, 2, 3]
    feed.ack(2)
    loop.run()
    assert events.tags == [1, 2, 3]
    feed.ack(3)
    loop.run()
    assert events.tags == [1, 2, 3, 4, 5]


def test_messages_that_are_not_chosen_are_passed_over() -> None:
    feed = Feed(messages(5), 5, 1, lambda each: each.body in b"25")
    loop, events = started(feed)
    assert (events.tags, feed.position) == ([2], 1)
    feed.ack(2)
    loop.run()
    assert (events.tags, feed.position) == ([2, 5], 4)


def test_an_error_of_its_messages_ends_it() -> None:
    _, events = started(Feed(messages(1, "line 2: not a message"), 5, 9))
    assert (events.tags, events.failure) == ([1], "line 2: not a message")


def test_it_counts_what_is_still_to_come() -> None:
    feed = Feed(messages(3), 3, 2)
    loop, _ = started(feed)
    counts: list[int] = []
    feed.count(counts.append)
    feed.ack(1)
    loop.run()
    feed.ack(2)
    loop.run()
    feed.count(counts.append)
    loop.run()
    assert counts == [1, 0]
