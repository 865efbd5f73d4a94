"""Last-value queues: a new message replaces the one with its key in place; limits, deaths of shards, policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shard.steps import drain, get, pass_ms, publish, recount
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def last_value(key: str | None = None, **more: Any) -> dict[str, Any]:
    return {"x-overflow": "last-value", **({} if key is None else {"x-last-value-key": key}), **more}


def keyed(client: Client, body: bytes, key: object, header: str = "k") -> None:
    publish(client, "q", body, headers={"other": 1, header: key})


def test_the_newest_of_a_key_in_the_place_of_the_first(node: Node) -> None:
    node.declare("q", **last_value("k"))
    client = open_channel(node)
    for body, key in ((b"a1", "a"), (b"b1", "b"), (b"a2", "a"), (b"c1", 3), (b"b2", "b"), (b"a3", "a"), (b"c2", 3)):
        keyed(client, body, key)
    publish(client, "q", b"no key")
    publish(client, "q", b"no such key", headers={"x": 1})
    assert node.state("q").depth == 5
    recount(node, "q")
    assert drain(client, "q") == [b"a3", b"b2", b"c2", b"no key", b"no such key"]
    assert node.state("q").contents.ready_bytes == 0


def test_the_default_key(node: Node) -> None:
    node.declare("q", **last_value())
    client = open_channel(node)
    for body in (b"1", b"2"):
        keyed(client, body, "a", "qpid.LVQ_key")
    assert drain(client, "q") == [b"2"]


def test_what_is_in_hand_is_left_alone(node: Node) -> None:
    node.declare("q", **{"qpid.last_value_queue_key": "k"})
    client = open_channel(node)
    keyed(client, b"1", "a")
    held = get(client, "q", no_ack=False)
    assert held
    keyed(client, b"2", "a")
    keyed(client, b"3", "a")
    assert node.state("q").depth == 2
    client.send("basic.nack", 1, delivery_tag=held.delivery_tag, requeue=True)
    node.settle()
    assert drain(client, "q") == [b"1", b"3"]
    recount(node, "q")


def test_a_limit_of_a_last_value_queue_drops_the_oldest(node: Node) -> None:
    node.declare("q", **last_value("k", **{"x-max-length": 2}))
    client = open_channel(node)
    for number in range(5):
        keyed(client, b"%d" % number, number % 4)
    assert drain(client, "q") == [b"3", b"4"]


def test_a_new_value_has_an_expiry_of_its_own(node: Node) -> None:
    node.declare("q", **last_value("k", **{"x-message-ttl": 100}))
    client = open_channel(node)
    keyed(client, b"1", "a")
    pass_ms(node, 60)
    keyed(client, b"2", "a")
    pass_ms(node, 60)
    assert drain(client, "q") == [b"2"]


def test_keys_of_messages_that_are_gone_are_forgotten(node: Node) -> None:
    node.declare("q", **last_value("k"))
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", no_ack=True)
    for number in range(300):
        keyed(client, b"x", number)
    last_values = node.state("q").last_values
    assert last_values is not None
    assert len(last_values._latest) < 100


def test_a_policy_makes_last_values_of_what_comes_from_then_on(node: Node) -> None:
    node.declare("q", **{"x-last-value-key": "k"})
    client = open_channel(node)
    for body in (b"a1", b"a2"):
        keyed(client, body, "a")
    node.policy("p", "^q$", {"overflow": "last-value"})
    node.settle()
    for body, key in ((b"a3", "a"), (b"b1", "b"), (b"a4", "a"), (b"b2", "b")):
        keyed(client, body, key)
    assert node.state("q").depth == 4
    node.policy("p", "^q$", None)
    node.settle()
    keyed(client, b"a5", "a")
    recount(node, "q")
    assert drain(client, "q") == [b"a1", b"a2", b"a4", b"b2", b"a5"]


def test_messages_of_before_that_policy_keep_their_place_over_a_death() -> None:
    """Messages of one batch are one segment, so none of them can be replaced."""
    with Node(stores=True) as node:
        node.declare("q", durable=True, **{"x-last-value-key": "k"})
        client = open_channel(node)
        for body in (b"a1", b"b1", b"a2"):
            client.publish(1, body, routing_key="q", headers={"k": body[:1].decode()}, delivery_mode=2)
        client.read()
        node.settle()
        node.policy("p", "^q$", {"overflow": "last-value"})
        keyed(client, b"c1", "c")
        node.kill_shard(0)
        node.start_shard(0)
        node.settle()
        for body in (b"a3", b"a4"):
            publish(client, "q", body, headers={"k": "a"}, delivery_mode=2)
        assert drain(client, "q") == [b"a1", b"b1", b"a2", b"a4"]
        assert node.state("q").contents.ready_bytes == 0


def test_keys_of_different_types_are_different(node: Node) -> None:
    node.declare("q", **last_value("k"))
    client = open_channel(node)
    for body, key in ((b"text", "1"), (b"number", 1), (b"truth", True), (b"nothing", None), (b"newer number", 1)):
        keyed(client, body, key)
    assert drain(client, "q") == [b"text", b"newer number", b"truth", b"nothing"]


def test_the_next_incarnation_of_the_shard_knows_the_keys() -> None:
    with Node(stores=True) as node:
        node.declare("q", durable=True, **last_value("k"))
        client = open_channel(node)
        for body in (b"a1", b"b1"):
            publish(client, "q", body, headers={"k": body[:1].decode()}, delivery_mode=2)
        publish(client, "q", b"no key", delivery_mode=2)
        node.kill_shard(0)
        node.start_shard(0)
        node.settle()
        publish(client, "q", b"a2", headers={"k": "a"}, delivery_mode=2)
        assert drain(client, "q") == [b"a2", b"b1", b"no key"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=20))
def test_last_values_against_a_model(steps: list[tuple[str, bool]]) -> None:
    """Each step publishes with a key; some first have the oldest message delivered."""
    with Node() as node:
        node.declare("q", **last_value("k"))
        client = open_channel(node)
        line: list[tuple[str, bytes]] = []
        for number, (key, deliver) in enumerate(steps):
            if deliver:
                got = get(client, "q")
                assert (got.body if got else None) == (line.pop(0)[1] if line else None)
            body = b"%d" % number
            keyed(client, body, key)
            place = next((i for i, (known, _) in enumerate(line) if known == key), len(line))
            line[place : place + 1] = [(key, body)]
            recount(node, "q")
        assert drain(client, "q") == [body for _, body in line]
