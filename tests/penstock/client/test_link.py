"""The connection on pika's loop, with the test in place of the broker: its events, and reconnecting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
from pika.adapters.utils.connection_workflow import AMQPConnectionWorkflowFailed, AMQPConnectorSocketConnectError
from pika.exceptions import AMQPConnectionError

from penstock.client.link import Link, parameters_of, said
from penstock.client.options import Options
from penstock.client.outbox import Message
from tests.penstock.client.peer import Listener, Peer
from tests.waiting import PATIENCE


class Events:
    """The link's events, in order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Any, ...]] = SimpleQueue()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._queue.put((name, *arguments))

    def next(self) -> tuple[Any, ...]:
        return self._queue.get(timeout=PATIENCE)


class Running:
    """A link that runs in its own thread."""

    def __init__(self, listener: Listener, **options: Any) -> None:
        self.events = Events()
        parameters = parameters_of(listener.url, options.get("name", ""))
        self.link = Link(parameters, Options(**options), self.events)
        self.thread = threading.Thread(target=self.link.run, daemon=True)
        self.thread.start()

    def publish(self, body: bytes) -> None:
        self.link.call(lambda: self.link.publish(Message(body, "x", "k", {"message_id": "7"}, True, None)))

    def close(self) -> None:
        self.link.call(self.link.close)


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listener:
        yield listener


@pytest.fixture
def running(listener: Listener) -> Iterator[Running]:
    running = Running(listener, name="orders", reconnect_seconds=0.01)
    yield running
    listener.__exit__()
    if running.thread.is_alive():
        running.close()
        running.thread.join(PATIENCE)


@pytest.fixture
def peer(listener: Listener, running: Running) -> Peer:
    peer = listener.accept()
    assert running.events.next() == ("up",)
    return peer


def test_messages_and_their_answers(running: Running, peer: Peer) -> None:
    for body in (b"1", b"2"):
        running.publish(body)
    first, second = peer.take("basic.publish"), peer.take("basic.publish")
    assert (first.body, first.exchange, first.routing_key, first.mandatory) == (b"1", "x", "k", True)
    peer.send("basic.ack", 1, delivery_tag=1, multiple=True)
    assert running.events.next() == ("settled", 1, True, True)
    peer.give_back(second, 312, "NO_ROUTE", depth=5)
    assert running.events.next() == ("returned", "7", 312, "NO_ROUTE", "x", "k", {"depth": 5})
    peer.send("basic.nack", 1, delivery_tag=2)
    assert running.events.next() == ("settled", 2, False, False)


def test_the_brokers_flow_control(running: Running, peer: Peer) -> None:
    for active in (False, True):
        peer.send("channel.flow", 1, active=active)
        assert running.events.next() == ("flow", active)
        assert peer.take("channel.flow-ok").active is active
    peer.send("connection.blocked", reason="queue 'é' is full")
    assert running.events.next() == ("blocked", "queue 'é' is full")
    peer.send("connection.unblocked")
    assert running.events.next() == ("unblocked",)


def test_brokers_see_the_program_and_the_name(listener: Listener, peer: Peer) -> None:
    found = peer.client_properties
    assert (found["product"], found["connection_name"]) == ("penstock producer", "orders")
    assert "connection_name" not in parameters_of(listener.url, "").client_properties


def test_a_closed_channel_is_opened_again_on_the_same_connection(running: Running, peer: Peer) -> None:
    for code, text in ((404, "NOT_FOUND"), (311, "CONTENT_TOO_LARGE")):
        peer.send("channel.close", 1, code=code, text=text)
        peer.take("channel.close-ok")
        assert running.events.next() == ("down", code, text)
        peer.open_channel()
        assert running.events.next() == ("up",)


def test_a_closed_connection_is_made_again(listener: Listener, running: Running, peer: Peer) -> None:
    peer.send("connection.close", code=320, text="CONNECTION_FORCED - shutdown")
    assert running.events.next() == ("down", 320, "CONNECTION_FORCED - shutdown")
    again = listener.accept()
    assert running.events.next() == ("up",)
    again.drop()
    event, code, text = running.events.next()
    assert (event, code) == ("down", 0) and "StreamLostError" in text
    listener.accept()
    assert running.events.next() == ("up",)


def refuse(peer: Peer) -> None:
    peer.greet()
    peer.take("connection.open")
    peer.send("connection.close", code=530, text="NOT_ALLOWED - no such vhost")


def test_a_refusal_of_the_first_connection_is_hopeless(listener: Listener, running: Running) -> None:
    refuse(listener.connection())
    event, text = running.events.next()
    assert event == "hopeless" and "NOT_ALLOWED - no such vhost" in text


def test_a_refusal_of_a_later_connection_is_not(listener: Listener, running: Running, peer: Peer) -> None:
    """A vhost may be deleted and made again."""
    peer.drop()
    assert running.events.next()[:2] == ("down", 0)
    refuse(listener.connection())
    event, code, text = running.events.next()
    assert (event, code) == ("down", 0) and "NOT_ALLOWED - no such vhost" in text
    listener.accept()
    assert running.events.next() == ("up",)


def test_a_broker_that_hangs_up_in_the_handshake_is_tried_again(listener: Listener, running: Running) -> None:
    peer = listener.connection()
    peer.greet()
    peer.drop()
    assert running.events.next()[:2] == ("down", 0)
    listener.accept()
    assert running.events.next() == ("up",)


def test_it_gives_up_when_it_may(listener: Listener) -> None:
    running = Running(listener, give_up_seconds=0)
    listener.accept().drop()
    assert running.events.next() == ("up",)
    assert running.events.next()[:2] == ("down", 0)
    assert running.events.next() == ("hopeless", "no connection for 0 s")
    running.close()
    running.thread.join(PATIENCE)


def test_its_end(listener: Listener, running: Running, peer: Peer) -> None:
    running.close()
    peer.part()
    running.thread.join(PATIENCE)
    assert not running.thread.is_alive()


def test_its_end_during_the_handshake(listener: Listener, running: Running) -> None:
    listener.connection()
    running.close()
    running.thread.join(PATIENCE)
    assert not running.thread.is_alive()


def test_an_error_is_described_by_its_first_cause() -> None:
    refused = AMQPConnectorSocketConnectError(ConnectionRefusedError(111, "Connection refused"))
    failed = AMQPConnectionWorkflowFailed([refused])
    for error in (refused, failed, AMQPConnectionError(failed)):
        assert said(error) == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert said(KeyError("x")) == "KeyError: 'x'"
