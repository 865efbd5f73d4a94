"""The connection on py-amqp, with the test in place of the broker."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import amqp
import pytest

from penstock.client import Stopped
from penstock.client.amqp_link import LimitedConnection, PublishingChannel, Unanswered, is_over
from penstock.client.unconfirmed import Destination, Publish
from tests.penstock.client.linked import SECONDS, Link
from tests.penstock.client.peer import Listener

NO_FLAGS = {"mandatory": False, "immediate": False}


@pytest.fixture
def link() -> Iterator[Callable[..., Link]]:
    """A function that connects."""
    with Listener() as listener, ThreadPoolExecutor() as threads:
        yield lambda **options: Link(listener, threads, **options)


def test_connection_blocked_has_a_reason(link: Callable[..., Link]) -> None:
    one = link()
    one.peer.send("connection.blocked", reason="queue 'work' is full")
    one.connection.drain_events()
    assert one.connection.blocked == "connection.blocked: queue 'work' is full"
    assert one.connection.describe("no").endswith(": no; connection.blocked: queue 'work' is full")
    one.peer.send("connection.unblocked")
    one.connection.drain_events()
    assert one.connection.blocked == ""


def test_a_call_without_an_answer_closes_the_connection(link: Callable[..., Link]) -> None:
    one = link()
    one.peer.send("connection.blocked", reason="memory")
    with pytest.raises(Unanswered, match=r"no answer in time, connection closed; connection.blocked: memory") as raised:
        PublishingChannel(one.connection)
    assert not one.connection.connected
    error = raised.value
    assert isinstance(error, Stopped) and isinstance(error, amqp.exceptions.ConnectionError)
    assert not isinstance(error, amqp.RecoverableConnectionError | OSError), "kombu would repeat the call"
    assert str(type(error)(*error.args)) == str(error)


def test_the_close_of_a_connection_waits_for_its_answer_no_longer_than_that(link: Callable[..., Link]) -> None:
    one = link()
    with pytest.raises(TimeoutError):
        one.connection.close()
    one.peer.take("connection.close")
    assert not one.connection.connected


def test_the_shorter_of_two_limits_holds(link: Callable[..., Link]) -> None:
    connection = link(confirm_timeout=1000).connection
    begun = time.monotonic()
    with pytest.raises(TimeoutError), connection.within(SECONDS), connection.within(1000):
        connection.drain_events(timeout=1000)
    assert SECONDS <= time.monotonic() - begun < 1000
    assert connection.left() == 1000


def test_confirms_and_the_close_of_a_channel(link: Callable[..., Link]) -> None:
    one = link()
    channel = one.channel()
    publishes = [Publish(Destination("orders", "new"), 0.0) for _ in range(3)]
    for publish in publishes:
        channel.send(publish, amqp.Message(b"x"), NO_FLAGS, SECONDS)
    assert one.peer.take_bodies(3) == [b"x"] * 3
    one.peer.send("basic.ack", 1, delivery_tag=1)
    one.peer.send("basic.nack", 1, delivery_tag=2)
    one.peer.send("channel.close", 1, code=404, text="NOT_FOUND - no exchange 'orders'", class_id=60, method_id=40)
    while channel.is_open:
        one.connection.drain_events()
    one.peer.take("channel.close-ok")
    assert [publish.taken for publish in publishes] == [True, False, False]
    assert isinstance(publishes[2].error, amqp.NotFound) and publishes[1].error is None
    assert one.connection.connected


def test_a_limit_is_a_number_of_seconds() -> None:
    for wrong in (0, -1, None, "5"):
        with pytest.raises(ValueError, match="confirm_timeout is a number of seconds above 0, not "):
            LimitedConnection(confirm_timeout=wrong)


def test_the_kernel_s_timeout_is_another_matter() -> None:
    assert is_over(TimeoutError("timed out"))
    assert not is_over(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
