"""Class exchange: rights, answers, and bindings between exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        node.bind("x", "q", key="k", type="direct")
        node.bind("t", type="topic")
        yield node


def permit(node: Node, configure: str = "", write: str = "", read: str = "") -> Client:
    """Return a client of a user who has only these rights."""
    node.add_user("bob")
    node.router.command("permission_set", user="bob", vhost="/", configure=configure, write=write, read=read)
    node.publish_changes()
    node.settle()
    return open_channel(node, user="bob")


def refusal(client: Client, method: str, **arguments: Any) -> tuple[int, str]:
    """Return the code and text of the error with which a method closes its channel."""
    client.send(method, 1, **arguments)
    client.node.settle()
    closed = client.take("channel.close", 1)
    return closed.code, closed.text


def refused(right: str, name: str) -> tuple[int, str]:
    return 403, f"ACCESS_REFUSED - {right}access to exchange '{name}' in vhost '/' refused for user 'bob'"


def test_messages_go_by_a_binding_between_exchanges_until_it_is_removed(node: Node) -> None:
    client = open_channel(node)
    binding = {"destination": "x", "source": "t", "routing_key": "k"}
    client.call("exchange.bind", 1, **binding)
    client.publish(1, b"m", exchange="t", routing_key="k")
    node.settle()
    assert node.state("q").depth == 1
    client.send("exchange.unbind", 1, **binding)
    node.settle()
    assert client.names(1) == ["exchange.unbind-ok"]
    client.publish(1, b"m", exchange="t", routing_key="k")
    node.settle()
    assert node.state("q").depth == 1


def test_without_an_answer_wanted_there_is_none(node: Node) -> None:
    client = open_channel(node)
    client.send("exchange.declare", 1, exchange="new", type="fanout", nowait=True)
    client.send("exchange.bind", 1, destination="new", source="t", routing_key="k", nowait=True)
    client.send("exchange.unbind", 1, destination="new", source="t", routing_key="k", nowait=True)
    node.settle()
    assert node.router.topology.exchange("/", "new") is not None
    client.send("exchange.delete", 1, exchange="new", nowait=True)
    node.settle()
    assert node.router.topology.exchange("/", "new") is None
    assert not client.names(1)


def test_an_exchange_in_use_is_not_deleted_if_unused_is_asked_for(node: Node) -> None:
    client = open_channel(node)
    assert refusal(client, "exchange.delete", exchange="x", if_unused=True)[0] == 406
    client = open_channel(node)
    client.call("exchange.delete", 1, exchange="t", if_unused=True)


@pytest.mark.parametrize("method", ["exchange.declare", "exchange.delete"])
def test_an_exchange_is_declared_and_deleted_with_the_right_to_configure_it(node: Node, method: str) -> None:
    client = permit(node, configure="^y$", write=".*", read=".*")
    arguments = {"type": "direct"} if method == "exchange.declare" else {}
    client.call(method, 1, exchange="y", **arguments)
    assert refusal(client, method, exchange="x", **arguments) == refused("configure ", "x")


def test_a_passive_declare_needs_any_right(node: Node) -> None:
    client = permit(node, read="^x$")
    client.call("exchange.declare", 1, exchange="x", type="direct", passive=True)
    assert refusal(client, "exchange.declare", exchange="t", type="topic", passive=True) == refused("", "t")


@pytest.mark.parametrize(
    ("read", "write", "right", "name"), [("", ".*", "read ", "new"), (".*", "", "write ", "a"), ("new", "a", "", "")]
)
def test_a_new_exchange_with_an_alternate_needs_the_rights_to_read_it_and_to_write_there(
    node: Node, read: str, write: str, right: str, name: str
) -> None:
    client = permit(node, configure=".*", write=write, read=read)
    arguments = {"exchange": "new", "type": "direct", "arguments": {"alternate-exchange": "a"}}
    if right:
        assert refusal(client, "exchange.declare", **arguments) == refused(right, name)
    else:
        client.call("exchange.declare", 1, **arguments)


def test_an_exchange_that_exists_is_declared_without_the_rights_of_a_new_one(node: Node) -> None:
    arguments = {"exchange": "new", "type": "direct", "arguments": {"alternate-exchange": "a"}}
    open_channel(node).call("exchange.declare", 1, **arguments)
    permit(node, configure=".*").call("exchange.declare", 1, **arguments)


@pytest.mark.parametrize("method", ["exchange.bind", "exchange.unbind"])
@pytest.mark.parametrize(
    ("write", "read", "expected"), [("", ".*", refused("write ", "x")), (".*", "", refused("read ", "t"))]
)
def test_a_binding_needs_the_rights_to_write_its_destination_and_to_read_its_source(
    node: Node, method: str, write: str, read: str, expected: tuple[int, str]
) -> None:
    client = permit(node, write=write, read=read)
    assert refusal(client, method, destination="x", source="t", routing_key="k") == expected


@pytest.mark.parametrize("method", ["exchange.declare", "exchange.delete"])
def test_the_default_exchange_is_refused_to_a_user_without_rights_for_what_it_is(node: Node, method: str) -> None:
    client = permit(node)
    arguments = {"type": "direct"} if method == "exchange.declare" else {}
    assert refusal(client, method, exchange="", **arguments) == (
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    )
