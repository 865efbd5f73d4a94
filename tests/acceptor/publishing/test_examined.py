"""Publishes whose properties are examined: further routing keys, expirations, claimed users; texts are RabbitMQ's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.frames import Timestamp
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        for queue in "abc":
            node.declare(queue)
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    client = node.connect()
    client.call("channel.open", 1)
    return client


def received(node: Node, client: Client, queue: str) -> list[tuple[bytes, dict[str, Any]]]:
    """Read all messages of a queue; return their bodies and properties."""
    found = []
    while True:
        client.send("basic.get", 1, queue=queue, no_ack=True)
        node.settle()
        if "basic.get-empty" in client.names(1):
            client.take("basic.get-empty", 1)
            return found
        event = client.take("basic.get-ok", 1)
        found.append((event.body, event.properties))


def test_further_routing_keys(node: Node, client: Client) -> None:
    client.publish(1, b"1", routing_key="a", headers={"CC": ["b", "a", 7, "nowhere"], "x": 1})
    client.publish(1, b"2", routing_key="none", headers={"BCC": ["c"], "CC": ["b"]}, priority=3)
    assert received(node, client, "a") == [(b"1", {"headers": {"CC": ["b", "a", 7, "nowhere"], "x": 1}})]
    seen = {"headers": {"CC": ["b"]}, "priority": 3}
    assert received(node, client, "b") == [(b"1", {"headers": {"CC": ["b", "a", 7, "nowhere"], "x": 1}}), (b"2", seen)]
    assert received(node, client, "c") == [(b"2", seen)]


def test_each_of_a_run_goes_where_its_keys_say_and_in_order(node: Node, client: Client) -> None:
    expected: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
    for number in range(40):
        also = "bbcc bc"[number % 7].strip()
        client.publish(1, b"%d" % number, routing_key="a", headers={"BCC": [also]} if also else {})
        for queue in {"a", also} - {""}:
            expected[queue].append(b"%d" % number)
    client.call("confirm.select", 1)
    assert {queue: [body for body, _ in received(node, client, queue)] for queue in "abc"} == expected


def test_what_no_key_leads_anywhere_is_returned_without_bcc(node: Node, client: Client) -> None:
    client.publish(1, b"x", routing_key="no", mandatory=True, headers={"CC": ["nor"], "BCC": ["neither"]})
    node.settle()
    returned = client.take("basic.return", 1)
    assert (returned.routing_key, returned.properties) == ("no", {"headers": {"CC": ["nor"]}})


def test_an_alternate_exchange_takes_what_no_key_leads_anywhere(node: Node, client: Client) -> None:
    node.ask("exchange_declare", name="x", arguments={"alternate-exchange": "rest"})
    node.bind("rest", "c")
    node.ask("queue_bind", queue="a", source="x", key="a")
    client.publish(1, b"1", "x", "none", headers={"CC": ["a"]})
    client.publish(1, b"2", "x", "none", headers={"CC": ["b"]})
    assert [body for body, _ in received(node, client, "a")] == [b"1"]
    assert [body for body, _ in received(node, client, "c")] == [b"2"]


def refused(node: Node, client: Client, **properties: Any) -> tuple[int, str]:
    """Return how a publish with these properties is refused; the publish before it is accepted."""
    client.publish(1, b"before", routing_key="a")
    client.publish(1, b"x", routing_key="a", **properties)
    client.publish(1, b"after", routing_key="a")
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.class_id, closed.method_id) == (60, 40)
    assert not client.names(1)
    assert node.state("a").depth == 1
    return closed.code, closed.text.removeprefix("PRECONDITION_FAILED - ")


@pytest.mark.parametrize(
    ("header", "value", "kind"),
    [
        ("CC", "b", "longstr"),
        ("BCC", 5, "signedint"),
        ("CC", 2**40, "long"),
        ("BCC", None, "void"),
        ("CC", {"a": 1}, "table"),
        ("CC", b"octets", "binary"),
        ("BCC", 0.5, "double"),
        ("CC", True, "bool"),
        ("CC", Timestamp(5), "timestamp"),
    ],
)
def test_headers_that_are_no_arrays(node: Node, client: Client, header: str, value: Any, kind: str) -> None:
    reason = f'invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    assert refused(node, client, headers={header: value}) == (406, reason)


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("foo", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("12abc", '{leftover_string,"abc"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_expirations_that_are_none(node: Node, client: Client, expiration: str, reason: str) -> None:
    text = f"invalid expiration '{expiration}': {reason}"
    assert refused(node, client, expiration=expiration) == (406, text)


@pytest.mark.parametrize("expiration", ["60000", "007000", "+60000", "315360000000"])
def test_expirations_that_will_do(node: Node, client: Client, expiration: str) -> None:
    client.publish(1, b"x", routing_key="a", expiration=expiration)
    assert [body for body, _ in received(node, client, "a")] == [b"x"]


def test_a_claimed_user(node: Node, client: Client) -> None:
    client.publish(1, b"x", routing_key="b", user_id="guest")
    reason = "user_id property set to 'bob' but authenticated user was 'guest'"
    assert refused(node, client, user_id="bob") == (406, reason)
    assert node.state("b").depth == 1


def test_what_is_wrong_with_the_exchange_comes_first(node: Node, client: Client) -> None:
    client.publish(1, b"x", "nope", "k", expiration="foo")
    node.settle()
    assert client.take("channel.close", 1).code == 404
    assert not client.names(1)
