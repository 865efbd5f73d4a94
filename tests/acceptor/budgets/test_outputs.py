"""The bound on unread answers: a client above it is not read until half of them have left."""

from __future__ import annotations

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

LIMIT = 64 * 1024


def node_of() -> Node:
    limits = {"output_bytes": LIMIT, "max_message_size": LIMIT}
    return Node(amqp=limits, flow={"connection_window_bytes": LIMIT})


def unread(node: Node, nbytes: int, client: Client | None = None) -> Client:
    """Return a client with `nbytes` waiting in its socket, which the client does not read."""
    client = client or node.connect()
    core = node.core(client.acceptor)
    core.state.now = node.now
    if client.connection.writable:
        client.socket.waits = 0
        core.delivery.writable(client.connection, False)
    client.socket.waits = nbytes
    core.budgets.outputs.wrote(client.connection)
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
        assert not client.socket.reads  # more than is ever delivered before the client reads some


def test_what_is_charged_to_a_user_is_what_waits_for_all_connections_of_it() -> None:
    with node_of() as node:
        accounts = node.core(0).budgets.accounts
        first, second = unread(node, 1000), unread(node, 2000)
        assert accounts.users == {"guest": 3000} and accounts.kept == 3000
        drained(node, first)
        assert accounts.users == {"guest": 2000}
        second.lose()
        assert accounts.users == {} and accounts.kept == 0


def test_a_user_with_much_that_waits_is_not_read_where_it_takes_no_answers_and_goes_on_getting_where_it_does() -> None:
    with Node(memory={"process_limit": 150 * 1024 * 1024, "user_percent": 1}) as node:
        fifth = node.core(0).budgets.accounts.of_user // 5
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
