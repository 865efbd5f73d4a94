"""Declarations of what exists and is equal are answered by the acceptor; all else by the router and the shard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.shard.steps import drain
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2) as node:
        node.bind("x", type="direct")
        node.bind("y", type="fanout")
        yield node


@contextmanager
def asked(node: Node, router: int = 0, shard: int = 0) -> Iterator[None]:
    """Check how many requests the first acceptor sends meanwhile, to the router and to the shard."""
    before = requests(node)
    yield
    node.settle()
    assert requests(node) == (before[0] + router, before[1] + shard)


def requests(node: Node) -> tuple[int, int]:
    """Return how many requests the first acceptor has sent to the router and to the shard."""
    process = node.acceptors[0]
    assert process is not None
    return process.router.last_request, process.core.links[0].last_request


def declare(client: Client, **arguments: Any) -> tuple[int, int]:
    """Declare the queue `q`; return its numbers of messages and consumers."""
    answer = client.call("queue.declare", 1, queue="q", **arguments)
    return answer.messages, answer.consumers


def publish(client: Client, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(1, body, routing_key="q")
    client.node.settle()


TRAITS: list[dict[str, Any]] = [
    {}, {"durable": True}, {"auto_delete": True}, {"exclusive": True}, {"durable": True, "exclusive": True},
    {"arguments": {"x-max-length": 7, "x-overflow": "reject-publish"}},
]  # fmt: skip


@pytest.mark.parametrize("traits", TRAITS)
def test_an_equal_queue_is_declared_without_a_question(node: Node, client: Client, traits: dict[str, Any]) -> None:
    with asked(node, router=1, shard=1):
        assert declare(client, **traits) == (0, 0)
    publish(client, b"1", b"2")
    with asked(node):
        assert declare(client, **traits) == (2, 0)
        assert declare(client, passive=True) == (2, 0)


def test_another_acceptor_answers_likewise(node: Node, client: Client) -> None:
    other = open_channel(node, 1)
    declare(other)
    other.call("basic.consume", 1, queue="q")
    with asked(node):
        assert declare(client) == (0, 1)


@pytest.mark.parametrize(
    "otherwise", [{"durable": True}, {"auto_delete": True}, {"arguments": {"x-max-length": True}}, {"arguments": {}}]
)
def test_a_queue_declared_otherwise_is_the_routers_to_refuse(
    node: Node, client: Client, otherwise: dict[str, Any]
) -> None:
    declare(client, arguments={"x-max-length": 1})
    with asked(node, router=1):
        client.send("queue.declare", 1, queue="q", **otherwise)
        node.settle()
    assert client.take("channel.close", 1).code == 406


def test_the_shard_counts_what_this_acceptor_has_under_way_to_it(node: Node, client: Client) -> None:
    declare(client)
    with asked(node, shard=1):
        client.publish(1, b"1", routing_key="q")
        client.send("queue.declare", 1, queue="q")
    assert client.take("queue.declare-ok", 1).messages == 1


def test_the_shard_counts_for_a_channel_that_consumes_from_it(node: Node, client: Client) -> None:
    declare(client)
    publish(client, b"1", b"2")
    client.call("basic.consume", 1, queue="q")
    node.settle()
    with asked(node, shard=1):
        client.send("basic.nack", 1, delivery_tag=1, requeue=True)
        client.send("queue.declare", 1, queue="q")


def test_the_shard_counts_after_the_end_of_another_channel(node: Node, client: Client) -> None:
    """The consumer of that channel leaves, and what it has not acked is ready again."""
    declare(client)
    client.call("channel.open", 2)
    client.call("basic.consume", 2, queue="q")
    publish(client, b"1", b"2")
    assert declare(client) == (0, 1)
    with asked(node, shard=1):
        client.send("channel.close", 2)
        client.send("queue.declare", 1, queue="q")
    answer = client.take("queue.declare-ok", 1)
    assert (answer.messages, answer.consumers) == (2, 0)
    with asked(node):
        assert declare(client) == (2, 0)


def test_the_shard_learns_of_the_use_of_a_queue_that_expires(node: Node, client: Client) -> None:
    arguments = {"x-expires": 60_000}
    declare(client, arguments=arguments)
    with asked(node, shard=1):
        declare(client, arguments=arguments)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    other = open_channel(node)
    with asked(node):
        assert declare(other, arguments=arguments) == (0, 1)


def test_a_replica_that_is_behind_answers_nothing(node: Node, client: Client) -> None:
    """A client knows of the deletion, and its acceptor does not yet."""
    declare(client)
    queue = node.queue("q")
    node.ask("queue_delete", queue_id=queue.queue_id)
    client.send("queue.declare", 1, queue="q")
    client.read()
    node.finish(0)
    assert "queue.declare-ok" not in client.names(1)
    node.settle()
    client.take("queue.declare-ok", 1)
    assert node.queue("q").queue_id != queue.queue_id


def test_the_exclusive_queue_of_another_is_refused(node: Node, client: Client) -> None:
    declare(open_channel(node), exclusive=True)
    client.send("queue.declare", 1, queue="q", exclusive=True)
    node.settle()
    assert client.take("channel.close", 1).code == 405


def test_an_equal_exchange_is_declared_without_a_question(node: Node, client: Client) -> None:
    traits = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "x"}}
    with asked(node, router=1):
        client.call("exchange.declare", 1, exchange="e", **traits)
    with asked(node):
        client.call("exchange.declare", 1, exchange="e", **traits)
        client.call("exchange.declare", 1, exchange="e", passive=True)
        client.call("exchange.declare", 1, exchange="amq.topic", type="topic", durable=True)
    with asked(node, router=1):
        client.send("exchange.declare", 1, exchange="e", type="direct")
        node.settle()
    assert client.take("channel.close", 1).code == 406


def test_an_equal_binding_is_made_without_a_question(node: Node, client: Client) -> None:
    declare(client)
    binding: dict[str, Any] = {"queue": "q", "exchange": "x", "routing_key": "k", "arguments": {"n": 1}}
    with asked(node, router=1):
        client.call("queue.bind", 1, **binding)
    with asked(node):
        client.call("queue.bind", 1, **binding)
    with asked(node, router=1):
        client.call("queue.bind", 1, **binding | {"arguments": {"n": True}})
    to_exchange = {"destination": "x", "source": "y", "routing_key": ""}
    with asked(node, router=1):
        client.call("exchange.bind", 1, **to_exchange)
    with asked(node):
        client.call("exchange.bind", 1, **to_exchange)


def test_the_binding_of_another_user_is_made_anew(node: Node, client: Client) -> None:
    """It may give its queue power that the other user has no right to give."""
    declare(client)
    client.call("queue.bind", 1, queue="q", exchange="x", routing_key="k")
    node.add_user("bob")
    bob = open_channel(node, user="bob")
    with asked(node, router=1):
        bob.call("queue.bind", 1, queue="q", exchange="x", routing_key="k")


@pytest.fixture
def held(node: Node, client: Client) -> Client:
    """Return a client whose publishes to a full queue are parked."""
    node.declare("full", **{"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0})
    for _ in range(5):
        client.publish(1, b"x", routing_key="full")
        node.settle()
    assert client.connection.channels[1].messages_parked()
    return client


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue.declare", {"queue": "q"}), ("queue.declare", {"queue": "q", "passive": True}),
        ("exchange.declare", {"exchange": "x", "type": "direct"}),
        ("exchange.declare", {"exchange": "amq.topic", "passive": True}),
    ],
)  # fmt: skip
def test_what_is_equal_does_not_wait_behind_held_publishes(
    node: Node, held: Client, method: str, arguments: dict[str, Any]
) -> None:
    node.declare("q")
    node.settle()
    held.call(method, 1, **arguments)
    assert held.connection.channels[1].messages_parked()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue.declare", {"queue": "full", "passive": True}), ("queue.declare", {"queue": "new"}),
        ("queue.declare", {"queue": "q", "durable": True}), ("queue.declare", {"queue": "none", "passive": True}),
        ("exchange.declare", {"exchange": "new", "type": "direct"}),
    ],
)  # fmt: skip
def test_what_may_show_that_publishes_are_held_waits_behind_them(
    node: Node, held: Client, method: str, arguments: dict[str, Any]
) -> None:
    """Its answer counts them, or decides where they go, or ends their channel."""
    node.declare("q")
    node.settle()
    held.send(method, 1, **arguments)
    node.settle(1)
    assert not held.names(1) and held.connection.channels[1].inbox.methods
    drain(open_channel(node), "full")
    node.settle(1)
    assert held.names(1)


def test_a_declaration_does_not_pass_another_method(node: Node, held: Client) -> None:
    node.declare("q")
    node.settle()
    held.send("queue.delete", 1, queue="q")
    held.send("queue.declare", 1, queue="q")
    node.settle(1)
    assert not held.names(1)
    drain(open_channel(node), "full")
    node.settle(1)
    assert held.names(1) == ["queue.delete-ok", "queue.declare-ok"]
