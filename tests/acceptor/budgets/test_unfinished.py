"""The bounds on bodies that are begun and not finished, for a connection and for a user."""

from __future__ import annotations

from acceptor.budgets.unfinished import PROGRESS_SECONDS
from tests.frames import BODY, PROTOCOL_HEADER, frame, header_frame, method_frame
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

KIB = 1024
FRAME = 100 * KIB
SMALL = {"amqp": {"unfinished_bytes": 4 * FRAME}}
# A share of 1 % of this is one and a half of the bodies that `begin` leaves unfinished.
TIGHT = {"memory": {"process_limit": 100 * FRAME * 3, "user_percent": 1}}


def client_of(node: Node, channels: int = 1) -> Client:
    client = node.connect()
    for channel in range(1, channels + 1):
        client.call("channel.open", channel)
    return client


def begin(client: Client, channel: int, frames: int = 2) -> None:
    """Announce a body and send `frames` frames of it; one more finishes the body."""
    client.write(method_frame("basic.publish", channel, routing_key="q"))
    client.write(header_frame(channel, (frames + 1) * FRAME, {}))
    for _ in range(frames):
        proceed(client, channel)
    client.node.settle()


def proceed(client: Client, channel: int) -> None:
    client.write(frame(BODY, channel, bytes(FRAME)))


def test_one_body_may_have_any_size_and_others_beside_it_so_much() -> None:
    with Node(**SMALL) as node:
        node.declare("q")
        client = client_of(node, 8)
        begin(client, 1, 9)
        begin(client, 2, 3)
        assert not client.names()
        begin(client, 3, 3)
        close = client.take("connection.close")
        assert close.code == 506 and "amqp.unfinished_bytes" in close.text
        assert node.core(0).budgets.accounts.users == {}


def test_headers_alone_count_as_well() -> None:
    with Node(**SMALL) as node:
        client = client_of(node, 1000)
        for channel in range(1, 1001):
            client.write(method_frame("basic.publish", channel, routing_key="q"))
        node.settle()
        assert client.take("connection.close").code == 506


def test_of_a_user_over_its_share_one_connection_at_a_time_finishes_what_it_has_begun() -> None:
    with Node(**TIGHT) as node:
        node.declare("q")
        clients = [client_of(node) for _ in range(3)]
        for client in clients:
            begin(client, 1)
        assert [client.socket.reads for client in clients] == [True, False, False]
        for client in clients:
            proceed(client, 1)
        for _ in range(3):
            node.settle()
        assert all(client.socket.reads for client in clients)
        assert node.core(0).budgets.accounts.users == {} and not node.core(0).budgets.unfinished.lines
        assert node.state("q").contents.ready == 3


def test_who_is_first_and_brings_nothing_is_closed_and_the_next_goes_on() -> None:
    with Node(**TIGHT) as node:
        first, second = client_of(node), client_of(node)
        begin(first, 1)
        begin(second, 1)
        assert first.socket.reads and not second.socket.reads
        node.now += PROGRESS_SECONDS
        node.recheck(0)
        node.settle()
        assert first.take("connection.close").code == 506
        assert second.socket.reads


def test_who_is_first_and_gone_leaves_its_turn() -> None:
    with Node(**TIGHT) as node:
        first, second = client_of(node), client_of(node)
        begin(first, 1)
        begin(second, 1)
        first.lose()
        assert second.socket.reads
        second.lose()
        assert node.core(0).budgets.accounts.users == {} and not node.core(0).budgets.unfinished.lines


def test_nobody_else_is_held() -> None:
    with Node(**TIGHT) as node:
        node.declare("q")
        for _ in range(3):
            begin(client_of(node), 1)
        good = client_of(node)
        good.call("confirm.select", 1)
        good.publish(1, b"good", routing_key="q")
        node.settle()
        assert "basic.ack" in good.names(1) and good.socket.reads


def test_a_body_before_the_login_is_an_error_and_nobody_is_charged() -> None:
    with Node(**TIGHT) as node:
        client = Client(node, 0, {}, {})
        node.clients[client.connection] = client
        client.write(PROTOCOL_HEADER)
        client.write(method_frame("basic.publish", 1, routing_key="q"))
        client.write(header_frame(1, FRAME * 2, {}))
        for _ in range(30):
            client.write(frame(BODY, 1, bytes(4 * KIB)))
        node.settle()
        assert client.socket.closed and client.names() == ["connection.start"]
        assert node.core(0).budgets.accounts.users == {} and not node.core(0).budgets.unfinished.lines


def test_a_connection_that_is_closed_for_something_else_leaves_its_turn() -> None:
    with Node(**TIGHT) as node:
        first, second = client_of(node), client_of(node)
        begin(first, 1)
        begin(second, 1)
        first.write(frame(BODY, 1, bytes(2 * FRAME)))  # more than was announced
        node.settle()
        assert first.take("connection.close").code == 501
        assert second.socket.reads
