"""One connection: its first bytes, its channels, its deadlines and heartbeats, and its end."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from acceptor.amqp.connection import CLOSE_SECONDS, PROBE_SECONDS, UNREADABLE_SECONDS, forced
from acceptor.clients.connection_stage import ConnectionStage
from acceptor.clients.pauses import OUTPUT
from tests.frames import BODY, METHOD, PROTOCOL_HEADER, frame, method_frame, publish_frames
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


# Errors before the connection is open

START_OK = method_frame("connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US")
UNREADABLE = {
    "an unknown frame type": frame(NO_FRAME_TYPE, 0, b""),
    "a wrong frame end": frame(METHOD, 0, b"\0\x0a\0\x0b")[:-1] + b"\0",
    "a method that is not due": method_frame("connection.open", vhost="/"),
    "a method of a channel": method_frame("channel.open", 1),
    "a method that does not exist": frame(METHOD, 0, b"\0\x0a\x03\xe7"),
    "a publish": publish_frames(1, b"early", routing_key="q"),
    "contents": frame(BODY, 1, b"x"),
    "a frame that is too large": struct.pack(">BHI", METHOD, 0, 10_000_000) + bytes(20_000),
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("before", [b"", START_OK], ids=["after start", "after tune"])
def test_an_error_before_open_closes_the_socket_and_sends_nothing(node: Node, before: bytes, data: bytes) -> None:
    """Sections 2.2.4 and 4.2.3."""
    client = node.visit()
    client.write(PROTOCOL_HEADER + before)
    node.settle()
    known = client.names()
    with capture_logs() as logs:
        client.write(data)
        node.settle()
    assert client.names() == known and not client.data
    assert client.socket.closed and client.connection.stage is ConnectionStage.CLOSED
    assert [line["event"] for line in logs] == ["client error"]


def test_a_vhost_that_does_not_exist_is_an_error_that_the_client_is_told(node: Node) -> None:
    client = node.visit()
    client.write(PROTOCOL_HEADER + START_OK)
    node.settle()
    client.send("connection.tune-ok", 0, channel_max=10, frame_max=8192)
    client.send("connection.open", 0, vhost="nowhere")
    node.settle()
    assert client.take("connection.close").code == 530


# Deadlines and heartbeats


def test_heartbeats_are_sent_when_half_an_interval_brought_no_output(node: Node) -> None:
    client = node.connect(heartbeat=HEARTBEAT_SECONDS)
    tick(node, client, HEARTBEAT_SECONDS / 2 - 1)
    assert client.heartbeats == 0
    tick(node, client, 1)
    assert client.heartbeats == 1
    tick(node, client, 1)
    assert client.heartbeats == 1


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
