"""Gets in flight: limited per connection and per user, fewer while output waits for sockets, and none forgotten."""

from __future__ import annotations

import pytest

from acceptor.budgets.gets import AT_ONCE, OF_USER
from tests.acceptor.budgets.test_outputs import drained, node_of, unread
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


def ask(node: Node, client: Client, count: int) -> None:
    """Send a get on each of `count` channels, and have the acceptor read them; no shard has answered."""
    for channel in range(1, count + 1):
        client.call("channel.open", channel)
    for channel in range(1, count + 1):
        client.send("basic.get", channel, queue="q", no_ack=True)
    while client.read():
        pass


def test_a_connection_has_a_few_gets_in_flight() -> None:
    with node_of() as node:
        node.declare("q")
        client = node.connect()
        ask(node, client, AT_ONCE + 3)
        gets = node.core(0).budgets.outputs.gets
        assert client.connection.kept.gets == AT_ONCE and gets.under_way.users == {"guest": AT_ONCE}
        assert [channel.number for channel, _ in gets.lines[client.connection]] == [9, 10, 11]
        node.settle()
        assert all(client.names(channel) == ["basic.get-empty"] for channel in range(1, AT_ONCE + 4))
        assert not client.connection.kept.gets and not gets.under_way.users and not gets.lines


def test_the_connections_of_a_user_share_a_number_of_gets_and_other_users_have_theirs() -> None:
    with node_of() as node:
        node.declare("q")
        node.add_user("bob")
        clients = [node.connect() for _ in range(OF_USER // AT_ONCE + 1)]
        other = node.connect(user="bob")
        for client in (*clients, other):
            for channel in range(1, AT_ONCE + 1):
                client.call("channel.open", channel)
        for client in (*clients, other):
            for channel in range(1, AT_ONCE + 1):
                client.send("basic.get", channel, queue="q", no_ack=True)
            while client.read():
                pass
        gets = node.core(0).budgets.outputs.gets
        assert gets.under_way.users == {"guest": OF_USER, "bob": AT_ONCE}
        assert list(gets.crowded["guest"]) == [clients[-1].connection]
        node.settle()
        assert all("basic.get-empty" in clients[-1].names(channel) for channel in range(1, AT_ONCE + 1))
        assert not gets.under_way.users and not gets.crowded and not gets.lines


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
        assert client.connection.kept.gets == 0 and not node.core(0).budgets.outputs.gets.lines


def test_a_get_that_fails_gives_its_turn_to_the_next() -> None:
    with node_of() as node:
        node.declare("q")
        client = node.connect()
        for channel in range(1, 31):
            client.call("channel.open", channel)
            client.send("basic.get", channel, queue="q" if channel == 30 else "nowhere")
        node.settle()
        assert "basic.get-empty" in client.names(30) and client.connection.kept.gets == 0


def test_gets_of_a_user_over_its_share_come_one_at_a_time_and_all_in_the_end() -> None:
    with Node(memory={"process_limit": 40 * 1024 * 1024, "user_percent": 1}) as node:
        node.declare("q")
        accounts, gets = node.core(0).budgets.accounts, node.core(0).budgets.outputs.gets
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
        unread(node, 2 * node.core(0).budgets.accounts.of_user, client)
        client.connection.delivered += client.socket.waits
        client.send("basic.consume", 1, queue="q", consumer_tag="late")
        node.settle()
        assert "basic.consume-ok" not in client.names(1)
        drained(node, client)
        node.settle()
        client.take("basic.consume-ok", 1)
        assert client.connection.kept.gets == 0
