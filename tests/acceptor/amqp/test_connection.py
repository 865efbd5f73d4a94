"""One connection: its first bytes, its channels, its deadlines and heartbeats, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.amqp.connection import CLOSE_SECONDS, PROBE_SECONDS, UNREADABLE_SECONDS, forced
from acceptor.clients.pauses import OUTPUT
from tests.frames import PROTOCOL_HEADER, frame
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

HEARTBEAT_SECONDS = 10
NO_FRAME_TYPE = 99


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def closed_for_an_error(node: Node) -> Client:
    """Return a client that has been sent connection.close and has not answered."""
    client = open_channel(node)
    client.send("basic.qos", 7)
    node.settle()
    client.take("connection.close")
    return client


def tick(node: Node, client: Client, seconds: float) -> None:
    """Let `seconds` pass before the connection enforces its deadlines."""
    node.now += seconds
    node.core(0).state.now = node.now
    client.connection.tick(node.now)
    node.settle()


# The first bytes


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("header", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"])
def test_a_protocol_header_may_come_in_pieces(node: Node, header: bytes, most: int) -> None:
    client = node.visit()
    client.most = most
    client.write(header)
    node.settle()
    assert client.names() == ["connection.start"]


@pytest.mark.parametrize("header", [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x01\x00\x00", b"AMQX"])
def test_another_protocol_is_answered_with_the_brokers_header_and_nothing_else(node: Node, header: bytes) -> None:
    client = node.visit()
    client.write(header)
    node.settle()
    assert client.header == PROTOCOL_HEADER and not client.data and not client.names()
    assert client.socket.closed


# Channels


def test_a_channel_cannot_be_used_before_the_connection_is_open(node: Node) -> None:
    client = node.visit()
    client.write(PROTOCOL_HEADER)
    client.publish(1, b"early", routing_key="q")
    node.settle()
    closed = client.take("connection.close")
    assert (closed.code, closed.text) == (503, "COMMAND_INVALID - a channel is used before the connection is open")


@pytest.mark.parametrize(
    ("method", "channel", "text"),
    [("basic.qos", 7, "expected 'channel.open'"), ("channel.open", 1, "second 'channel.open' seen")],
)
def test_a_channel_is_opened_once_before_it_is_used(node: Node, method: str, channel: int, text: str) -> None:
    client = open_channel(node)
    client.send(method, channel)
    node.settle()
    closed = client.take("connection.close")
    assert (closed.code, closed.text) == (504, f"CHANNEL_ERROR - {text}")


def test_the_number_of_channels_is_limited_and_a_closed_one_does_not_count() -> None:
    with Node(amqp={"channel_max": 2}) as node:
        client = node.visit()
        client.write(PROTOCOL_HEADER)
        client.send(
            "connection.start-ok", client_properties={}, mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US"
        )
        client.send("connection.tune-ok", channel_max=2, frame_max=131072)
        client.send("connection.open", vhost="/")
        for number in (1, 900):
            client.call("channel.open", number)
        client.call("channel.close", 1)
        client.call("channel.open", 2)
        assert node.core(0).state.counters.open_channels == 2
        client.send("channel.open", 3)
        node.settle()
        closed = client.take("connection.close")
        assert closed.code == 530
        assert closed.text.endswith("number of channels opened (2) has reached the negotiated channel_max (2)")
        assert node.core(0).state.counters.open_channels == 0


# Deadlines and heartbeats


def test_heartbeats_are_sent_when_half_an_interval_brought_no_output(node: Node) -> None:
    client = node.connect(heartbeat=HEARTBEAT_SECONDS)
    tick(node, client, HEARTBEAT_SECONDS / 2 - 1)
    assert client.heartbeats == 0
    tick(node, client, 1)
    assert client.heartbeats == 1
    tick(node, client, 1)
    assert client.heartbeats == 1


@pytest.mark.parametrize("paused", [False, True])
def test_a_client_that_is_read_and_sends_nothing_for_two_intervals_is_hung_up_on(node: Node, paused: bool) -> None:
    client = node.connect(heartbeat=HEARTBEAT_SECONDS)
    if paused:
        client.connection.pause_reading(OUTPUT)
    tick(node, client, 2 * HEARTBEAT_SECONDS + 1)
    assert not client.socket.closed
    tick(node, client, 0.5)
    assert client.socket.closed is not paused
    if paused:  # counted from when the connection is read again
        client.connection.resume_reading(OUTPUT)
        tick(node, client, HEARTBEAT_SECONDS)
        assert not client.socket.closed


def test_a_paused_client_without_heartbeats_is_probed(node: Node) -> None:
    client = node.connect()
    tick(node, client, PROBE_SECONDS)
    assert client.heartbeats == 0
    client.connection.pause_reading(OUTPUT)
    tick(node, client, 0)
    assert client.heartbeats == 1


# The end


def test_a_closing_connection_ignores_all_but_the_answer(node: Node) -> None:
    node.declare("q")
    client = closed_for_an_error(node)
    client.publish(1, b"late", routing_key="q")
    client.send("queue.delete", 1, queue="q")
    client.send("channel.open", 2)
    node.settle()
    assert not client.names() and not client.names(1) and not client.names(2)
    assert node.state("q").depth == 0
    assert not client.socket.closed
    client.send("connection.close-ok")
    node.settle()
    assert client.socket.closed


def test_a_close_that_crosses_the_brokers_own_is_answered(node: Node) -> None:
    client = closed_for_an_error(node)
    client.call("connection.close")
    assert client.socket.closed


@pytest.mark.parametrize(("unreadable", "seconds"), [(False, CLOSE_SECONDS), (True, UNREADABLE_SECONDS)])
def test_an_answer_to_close_has_a_deadline_that_is_short_where_it_cannot_be_read(
    node: Node, unreadable: bool, seconds: float
) -> None:
    client = open_channel(node)
    if unreadable:
        client.write(frame(NO_FRAME_TYPE, 1, b""))
    else:
        client.send("basic.qos", 7)
    node.settle()
    assert client.take("connection.close").code == (501 if unreadable else 504)
    tick(node, client, seconds - 0.1)
    assert not client.socket.closed
    tick(node, client, 0.1)
    assert client.socket.closed


def test_the_first_error_is_the_one_that_is_sent(node: Node) -> None:
    client = closed_for_an_error(node)
    client.connection.fail(forced("shut down"))
    node.settle()
    assert not client.names()
    other = node.connect()
    other.connection.fail(forced("shut down"))
    node.settle()
    closed = other.take("connection.close")
    assert (closed.code, closed.text) == (320, "CONNECTION_FORCED - shut down")


def test_a_lost_connection_leaves_nothing_behind(node: Node) -> None:
    client, core = open_channel(node), node.core(0)
    node.declare("q")
    client.call("basic.consume", 1, queue="q")
    client.connection.pause_reading(OUTPUT)
    client.lose()
    node.settle()
    assert not core.state.connections and not core.state.counters.open_channels
    assert not core.delivery.consumers and not core.budgets.unread.since
    assert not node.state("q").ring


def test_exclusive_queues_go_with_a_connection_that_was_closed_for_an_error(node: Node) -> None:
    client = open_channel(node)
    client.call("queue.declare", 1, queue="mine", exclusive=True)
    client.send("basic.qos", 7)
    node.settle()
    assert client.take("connection.close").code == 504
    client.send("connection.close-ok")
    node.settle()
    assert client.socket.closed
    client.lose()
    node.settle()
    assert node.router.topology.queue("/", "mine") is None


def test_exclusive_queues_go_with_a_connection_that_is_lost_before_their_declaration_is_answered(node: Node) -> None:
    client = open_channel(node)
    client.send("queue.declare", 1, queue="mine", exclusive=True)
    client.lose()
    node.settle()
    assert node.router.topology.queue("/", "mine") is None
