"""Answers that a client does not take are bounded: it is not read, and its gets wait."""

from __future__ import annotations

import pytest

from tests.joined import Client, Node

LIMIT = 64 * 1024


def node_of() -> Node:
    limits = {"output_bytes": LIMIT, "max_message_size": LIMIT}
    return Node(amqp=limits, flow={"connection_window_bytes": LIMIT})


def unread(node: Node, octets: int, client: Client | None = None) -> Client:
    """A client whose socket has so many octets that it does not take."""
    client = client or node.connect()
    core = node.core(client.acceptor)
    core.state.now = node.now
    if client.connection.writable:
        client.socket.waits = 0
        core.delivery.writable(client.connection, False)
    client.socket.waits = octets
    core.outputs.wrote(client.connection)
    return client


def drained(node: Node, client: Client) -> None:
    client.socket.waits = 0
    node.core(client.acceptor).delivery.writable(client.connection, True)


def test_a_client_that_takes_no_answers_is_not_read_until_half_of_them_has_left() -> None:
    with node_of() as node:
        client = unread(node, LIMIT)
        assert client.socket.reads
        unread(node, LIMIT + 1, client)
        assert not client.socket.reads
        client.socket.waits = LIMIT // 2 + 1
        node.recheck(0)
        assert not client.socket.reads
        client.socket.waits = LIMIT // 2
        node.recheck(0)
        assert client.socket.reads


def test_deliveries_that_wait_do_not_keep_a_client_from_being_read() -> None:
    with node_of() as node:
        client = unread(node, 0)
        client.connection.delivered += LIMIT
        unread(node, 2 * LIMIT, client)
        assert client.socket.reads
        client.connection.delivered += 10 * LIMIT
        unread(node, 10 * LIMIT, client)
        assert not client.socket.reads  # so much is never delivered before some of it is taken


def test_what_is_charged_to_a_user_is_what_waits_for_all_connections_of_it() -> None:
    with node_of() as node:
        accounts = node.core(0).accounts
        first, second = unread(node, 1000), unread(node, 2000)
        assert accounts.users == {"guest": 3000} and accounts.kept == 3000
        drained(node, first)
        assert accounts.users == {"guest": 2000}
        second.lose()
        assert accounts.users == {} and accounts.kept == 0


def test_a_user_with_much_that_waits_is_not_read_where_it_takes_no_answers_and_goes_on_getting_where_it_does() -> None:
    with Node(memory={"process_limit": 150 * 1024 * 1024, "user_percent": 1}) as node:
        fifth = node.core(0).accounts.of_user // 5
        assert 300 * 1024 < fifth < 310 * 1024
        first = unread(node, 300 * 1024)
        assert first.socket.reads
        second = unread(node, 300 * 1024)
        assert not second.socket.reads
        other = unread(node, 1000)
        assert other.socket.reads
        node.declare("q")
        reads = node.connect()
        reads.call("channel.open", 1)
        reads.publish(1, b"x", routing_key="q")
        assert reads.call("basic.get", 1, queue="q", no_ack=True).name == "basic.get-ok"
        drained(node, second)
        assert second.socket.reads


@pytest.mark.parametrize("lost", [False, True])
def test_gets_wait_as_long_as_nothing_of_the_last_ones_is_taken(lost: bool) -> None:
    with node_of() as node:
        node.declare("q")
        client = node.connect()
        for channel in range(1, 21):
            client.call("channel.open", channel)
        for body in range(20):
            client.publish(1, b"%d" % body, routing_key="q")
        node.settle()
        unread(node, 1000, client)
        for channel in range(1, 21):
            client.send("basic.get", channel, queue="q", no_ack=True)
        node.settle()
        assert not any("basic.get-ok" in client.names(channel) for channel in range(1, 21))
        if lost:
            client.lose()
        else:
            drained(node, client)
        node.settle()
        got = [channel for channel in range(1, 21) if "basic.get-ok" in client.names(channel)]
        assert got == ([] if lost else list(range(1, 21)))
        assert client.connection.gets == 0 and not node.core(0).outputs.gets.lines


def test_a_get_that_fails_gives_its_turn_to_the_next() -> None:
    with node_of() as node:
        node.declare("q")
        client = node.connect()
        for channel in range(1, 31):
            client.call("channel.open", channel)
            client.send("basic.get", channel, queue="q" if channel == 30 else "nowhere")
        node.settle()
        assert "basic.get-empty" in client.names(30) and client.connection.gets == 0


def test_gets_of_a_user_over_its_share_come_one_at_a_time_and_all_in_the_end() -> None:
    with Node(memory={"process_limit": 40 * 1024 * 1024, "user_percent": 1}) as node:
        node.declare("q")
        accounts, gets = node.core(0).accounts, node.core(0).outputs.gets
        stuck = unread(node, accounts.of_user // 5 + 1)
        clients = [node.connect() for _ in range(10)]
        for client in clients:
            client.send("channel.open", 1)
            client.publish(1, b"x", routing_key="q")
        node.settle()
        for client in clients:
            client.send("basic.get", 1, queue="q", no_ack=True)
            client.read()
        assert gets.under_way.users == {"guest": 1}
        clients[5].lose()
        node.settle()
        got = [client for client in clients if "basic.get-ok" in client.names(1)]
        assert got == clients[:5] + clients[6:]
        assert not gets.under_way.users and not gets.crowded and not gets.lines
        unread(node, accounts.of_user // 2, stuck)
        clients[0].send("basic.get", 1, queue="q", no_ack=True)
        node.settle()
        assert clients[0].names(1).count("basic.get-ok") == 1 and list(gets.lines) == [clients[0].connection]
        drained(node, stuck)
        node.recheck(0)
        node.settle()
        assert clients[0].names(1).count("basic.get-ok") == 2


def test_who_takes_nothing_consumes_nothing_more_while_the_share_of_its_user_is_used_up() -> None:
    with Node(memory={"process_limit": 40 * 1024 * 1024, "user_percent": 1}) as node:
        node.declare("q")
        client = node.connect()
        client.call("channel.open", 1)
        unread(node, 2 * node.core(0).accounts.of_user, client)
        client.connection.delivered += client.socket.waits
        client.send("basic.consume", 1, queue="q", consumer_tag="late")
        node.settle()
        assert "basic.consume-ok" not in client.names(1)
        drained(node, client)
        node.settle()
        client.take("basic.consume-ok", 1)
        assert client.connection.gets == 0
