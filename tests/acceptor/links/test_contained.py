"""A bug in one client's work ends that client's connection."""

from __future__ import annotations

from typing import Any

import pytest

from acceptor.amqp.methods import HANDLERS
from acceptor.clients.consumers import Consumer
from acceptor.consuming.delivery import Delivery
from acceptor.links.contained import contained
from penstock.bus.to_acceptor import Deliver
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


class Work:
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    @contained
    def act(self, number: int, *, by: int) -> None:
        number / by

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


def test_who_calls_hears_nothing_of_it() -> None:
    work = Work()
    work.act(1, by=2)
    assert not work.errors
    work.act(1, by=0)
    assert [type(error) for error in work.errors] == [ZeroDivisionError]


def test_what_ends_the_process_is_not_kept() -> None:
    class Ends(Work):
        @contained
        def leave(self) -> None:
            raise SystemExit

    with pytest.raises(SystemExit):
        Ends().leave()


@pytest.fixture
def two() -> Any:
    """Yield a node, a client that will run into a bug, and another client."""
    with Node() as node:
        node.declare("q")
        node.declare("r")
        yield node, node.connect(), node.connect()


def test_deliveries_of_others_in_the_turn(
    two: tuple[Node, Client, Client], bugs_are_contained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, unlucky, other = two
    for client, queue in ((unlucky, "q"), (other, "r")):
        client.call("channel.open", 1)
        client.call("basic.consume", 1, queue=queue)
    deliver = Delivery.deliver

    def fails(self: Delivery, operation: Deliver, parts: list[Any]) -> None:
        if self.consumers[operation.consumer].channel.connection is unlucky.connection:
            raise ValueError("a bug")
        deliver(self, operation, parts)

    monkeypatch.setattr(Delivery, "deliver", fails)
    other.publish(1, b"x", routing_key="q")
    other.publish(1, b"y", routing_key="r")
    node.settle()
    assert other.take("basic.deliver", 1).body == b"y"
    assert unlucky.take("connection.close").code == 541
    unlucky.send("connection.close-ok")
    node.settle()
    assert other.call("queue.declare", 1, queue="q", passive=True).messages == 1  # the message is back in its queue


def test_answers_to_others_in_the_turn(
    two: tuple[Node, Client, Client], bugs_are_contained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, unlucky, other = two
    handler = HANDLERS["queue_declare"]

    def fails(channel: Any, arguments: dict[str, Any]) -> Any:
        asking: Any = handler(channel, arguments)
        yield from asking
        if channel.connection is unlucky.connection:
            raise KeyError("a bug")

    monkeypatch.setitem(HANDLERS, "queue_declare", fails)
    for client in (unlucky, other):
        client.call("channel.open", 1)
        client.send("queue.declare", 1, queue="q", passive=True)
    node.settle()
    assert other.take("queue.declare-ok", 1).messages == 0
    assert unlucky.take("connection.close").code == 541


def test_what_waits_for_room_behind_it(
    two: tuple[Node, Client, Client], bugs_are_contained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of a channel let in at a gate ends that channel only, and the next in line is let in."""
    node, unlucky, other = two
    node.declare("full", **{"x-max-length": 2, "x-overflow": "flow"})
    getter = node.connect()
    for client in (getter, unlucky, other):
        client.call("channel.open", 1)
    getter.publish(1, b"0", routing_key="full")
    getter.publish(1, b"1", routing_key="full")
    node.settle()
    for client in (unlucky, other):
        client.publish(1, b"x", routing_key="full")
        node.settle()
    held = [channel for channel in node.core(0).holding.holds.held if channel.connection is unlucky.connection]
    assert held
    monkeypatch.setattr(held[0], "pump", lambda most: 1 // 0)
    getter.call("queue.purge", 1, queue="full")
    node.settle(rechecks=2)
    assert unlucky.take("connection.close").code == 541
    assert not any(channel.connection is other.connection for channel in node.core(0).holding.holds.held)
    assert getter.call("basic.get", 1, queue="full", no_ack=True).body == b"x"


@pytest.mark.parametrize("how", ["channel.close", "connection.close"])
def test_a_channel_that_fails_while_it_ends_leaves_nothing_behind(
    two: tuple[Node, Client, Client], bugs_are_contained: None, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    node, unlucky, other = two
    for client in unlucky, other:
        client.call("channel.open", 1)
        client.call("basic.consume", 1, queue="q")
    connection, forget = unlucky.connection, Delivery.forget

    def fails(self: Delivery, consumer: Consumer) -> None:
        if consumer.channel.connection is connection:
            raise ValueError("a bug")
        forget(self, consumer)

    monkeypatch.setattr(Delivery, "forget", fails)
    unlucky.send(how, 1 if how == "channel.close" else 0)
    node.settle()
    assert unlucky.take("connection.close").code == 541
    unlucky.lose()
    state = node.core(0).state
    assert [*state.connections.values()] == [other.connection]
    assert state.counters.open_channels == 1
