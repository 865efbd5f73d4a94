"""Publishing beside kombu's channels, with the test in place of the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import amqp
import pytest

from penstock.client import ProducerError, Rejected, Stopped, Unconfirmed, Unroutable
from penstock.client.amqp_link import Unanswered
from penstock.client.publisher import MOST_CHANNELS, Publisher
from penstock.client.unconfirmed import Destination
from tests.penstock.client.linked import SECONDS, Link
from tests.penstock.client.peer import Listener, Peer
from tests.waiting import PATIENCE

LARGE = bytes(32 * 1024 * 1024)
"""More than the buffers of two sockets hold."""


class Publishing:
    """A publisher, whose publishes wait in a thread for their peer."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.peer: Peer = link.peer
        self.publisher = Publisher(link.connection)

    def publish(self, key: str, body: bytes = b"x", seconds: float = PATIENCE) -> Future[None]:
        """Begin to publish a message."""
        flags = {"mandatory": True, "immediate": False}
        return self.link.threads.submit(
            self.publisher.publish, amqp.Message(body), Destination("", key), flags, seconds
        )

    def open(self, key: str, seconds: float = PATIENCE, number: int = 1) -> Future[None]:
        """Publish a message to a new channel."""
        publishing = self.publish(key, seconds=seconds)
        self.peer.open_channel(number)
        assert self.peer.take("basic.publish").channel == number
        return publishing


@pytest.fixture
def start() -> Iterator[Callable[..., Publishing]]:
    """A function that connects a publisher to a broker that holds channels, as penstock does, or else connections."""
    with Listener() as listener, ThreadPoolExecutor() as threads:

        def start(holds_channels: bool = True) -> Publishing:
            link = Link(listener, threads, confirm_timeout=PATIENCE)
            if holds_channels:
                link.connection.server_properties["penstock_version"] = "1"
            return Publishing(link)

        yield start


def failed(publishing: Future[None], kind: type[Exception], text: str) -> None:
    """Check how a publish fails."""
    with pytest.raises(kind, match=text) as raised:
        publishing.result(PATIENCE)
    assert raised.type is kind
    assert not issubclass(kind, ProducerError) or not isinstance(raised.value, OSError), "kombu would publish again"


def test_a_confirm_ends_the_wait_and_frees_the_channel(start: Callable[..., Publishing]) -> None:
    one = start()
    first = one.open("a")
    one.peer.send("basic.ack", 1, delivery_tag=1)
    assert first.result(PATIENCE) is None
    second = one.publish("b")
    assert one.peer.take("basic.publish").routing_key == "b"
    one.peer.send("basic.ack", 1, delivery_tag=2)
    assert second.result(PATIENCE) is None
    assert not one.publisher.sound


def test_an_overdue_destination_is_refused_until_its_confirm_comes(start: Callable[..., Publishing]) -> None:
    one = start()
    held = one.open("full", SECONDS)
    one.peer.send("connection.blocked", reason="queue 'full': 8 of 8 messages")
    text = r"no confirm within 0.3 s, the message may still be queued: exchange '', routing key 'full'; "
    failed(held, Unconfirmed, text + "connection.blocked: queue 'full': 8 of 8 messages")
    assert one.publisher.sound
    failed(one.publish("full"), Stopped, r"not sent, as another message has waited .* 'full'; .*8 of 8 messages")
    elsewhere = one.open("free", number=2)
    one.peer.send("basic.ack", 2, delivery_tag=1)
    assert elsewhere.result(PATIENCE) is None
    one.peer.send("connection.unblocked")
    failed(one.publish("full"), Stopped, "8 of 8 messages")
    one.peer.send("basic.ack", 1, delivery_tag=1)
    while one.publisher.overdue():
        one.link.connection.drain_events(PATIENCE)
    again = one.publish("full")
    assert one.peer.take("basic.publish").channel == 1
    one.peer.send("basic.ack", 1, delivery_tag=2)
    assert again.result(PATIENCE) is None


def test_the_reason_of_one_hold_is_not_taken_for_that_of_another(start: Callable[..., Publishing]) -> None:
    one = start()
    one.peer.send("connection.blocked", reason="queue 'a': 8 of 8 messages")
    failed(one.open("a", SECONDS), Unconfirmed, "routing key 'a'; connection.blocked: queue 'a': 8 of 8")
    failed(one.open("b", SECONDS, 2), Unconfirmed, "routing key 'b'$")
    failed(one.publish("b"), Stopped, "routing key 'b'$")
    failed(one.publish("a"), Stopped, "routing key 'a'; connection.blocked: queue 'a': 8 of 8")


def test_only_so_many_destinations_are_overdue(start: Callable[..., Publishing]) -> None:
    one = start()
    for number in range(1, MOST_CHANNELS + 1):
        failed(one.open(f"q{number}", SECONDS, number), Unconfirmed, f"'q{number}'")
    failed(one.publish("another"), Stopped, f"not sent, as {MOST_CHANNELS} other destinations have no room")


def test_refusals_are_named_and_leave_the_channel_usable(start: Callable[..., Publishing]) -> None:
    one = start()
    nacked = one.open("a")
    one.peer.send("basic.nack", 1, delivery_tag=1)
    failed(nacked, Rejected, "refused: exchange '', routing key 'a'")
    for tag, code, kind in ((2, 312, Unroutable), (3, 311, Rejected)):
        returned = one.publish("b")
        one.peer.give_back(one.peer.take("basic.publish"), code, "WHY", queue="b")
        one.peer.send("basic.ack", 1, delivery_tag=tag)
        failed(returned, kind, f"{code} WHY: exchange '', routing key 'b'")
        error = returned.exception()
        assert isinstance(error, Unroutable | Rejected) and error.headers == {"queue": "b"}


def test_a_channel_that_the_broker_closes_fails_its_own_publish(start: Callable[..., Publishing]) -> None:
    one = start()
    failed(one.open("full", SECONDS), Unconfirmed, "'full'")
    other = one.open("nowhere", number=2)
    one.peer.send("channel.close", 1, code=406, text="HELD", class_id=60, method_id=40)
    one.peer.take("channel.close-ok")
    one.peer.send("channel.close", 2, code=404, text="NO SUCH", class_id=60, method_id=40)
    failed(other, amqp.NotFound, "NO SUCH")
    one.peer.take("channel.close-ok")
    again = one.open("full")
    one.peer.send("basic.ack", 1, delivery_tag=1)
    assert again.result(PATIENCE) is None


def test_a_broker_that_holds_connections_is_sent_nothing_while_it_does(start: Callable[..., Publishing]) -> None:
    one = start(holds_channels=False)
    first = one.open("a")
    one.peer.send("connection.blocked", reason="memory")
    one.peer.send("basic.ack", 1, delivery_tag=1)
    first.result(PATIENCE)
    failed(
        one.publish("a", seconds=SECONDS), Stopped, "not sent: exchange '', routing key 'a'; connection.blocked: memory"
    )
    waiting = one.publish("a")
    one.peer.send("connection.unblocked")
    one.peer.take("basic.publish")
    one.peer.send("basic.ack", 1, delivery_tag=2)
    assert waiting.result(PATIENCE) is None


def test_no_answer_to_the_opening_of_a_channel(start: Callable[..., Publishing]) -> None:
    one = start()
    failed(one.publish("a", seconds=SECONDS), Unanswered, "no answer in time, connection closed")


def test_a_socket_that_is_not_read(start: Callable[..., Publishing]) -> None:
    one = start()
    first = one.open("a")
    one.peer.send("basic.ack", 1, delivery_tag=1)
    first.result(PATIENCE)
    failed(one.publish("a", LARGE, SECONDS), Stopped, "not sent, as the broker reads too little, connection closed")
    assert not one.link.connection.connected


def test_a_lost_connection_is_an_error_of_py_amqp(start: Callable[..., Publishing]) -> None:
    one = start()
    publishing = one.open("a")
    one.peer.drop()
    with pytest.raises(OSError, match=r"closed connection|reset"):
        publishing.result(PATIENCE)
    assert not one.publisher.sound
