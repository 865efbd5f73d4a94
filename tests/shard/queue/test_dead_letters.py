"""Dead letters: the messages that become dead letters, the headers they get, and the delivery limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.amqp.properties import encode_properties
from penstock.amqp.splice import join_properties, join_table, split_properties, split_table
from tests.frames import Event, Timestamp
from tests.shard.steps import dlx, drain, get, pass_ms, publish, recount
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def headers(event: Event | None) -> dict[str, Any]:
    assert event is not None
    found: dict[str, Any] = event.properties["headers"]
    return found


def test_an_expired_message(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx(x_message_ttl=50))
    client = open_channel(node)
    publish(client, "q", b"1", b"2", content_type="text/plain", headers={"a": 1}, delivery_mode=2)
    pass_ms(node, 60)
    assert node.state("q").depth == 0
    got = get(client, "dead")
    assert got and (got.exchange, got.routing_key, got.body, got.redelivered) == ("", "dead", b"1", False)
    assert (got.properties["content_type"], got.properties["delivery_mode"]) == ("text/plain", 2)
    (death,) = headers(got)["x-death"]
    assert death == {
        "count": 1, "exchange": "", "queue": "q", "reason": "expired", "routing-keys": ["q"],
        "time": Timestamp(int(node.now)),
    }  # fmt: skip
    assert list(death) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    others = {name: value for name, value in headers(got).items() if name != "x-death"}
    assert others == {
        "a": 1, "x-first-death-exchange": "", "x-first-death-queue": "q", "x-first-death-reason": "expired",
        "x-last-death-exchange": "", "x-last-death-queue": "q", "x-last-death-reason": "expired",
    }  # fmt: skip
    assert drain(client, "dead") == [b"2"]
    recount(node, "q")
    recount(node, "dead")


def test_its_own_expiration_is_taken_off_and_remembered(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx())
    client = open_channel(node)
    publish(client, "q", b"1", expiration="10")
    pass_ms(node, 20)
    got = get(client, "dead")
    assert got and "expiration" not in got.properties
    assert headers(got)["x-death"][0]["original-expiration"] == "10"
    assert not node.shard(0).state.queues[node.queue("dead").queue_id].contents.expiring


@pytest.mark.parametrize("how", ["basic.nack", "basic.reject"])
def test_a_rejected_message(node: Node, how: str) -> None:
    node.declare("dead")
    node.declare("q", **dlx())
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    for _ in range(2):
        get(client, "q", no_ack=False)
    client.send(how, 1, delivery_tag=2, requeue=False)
    client.send(how, 1, delivery_tag=1, requeue=True)
    node.settle()
    got = get(client, "dead")
    assert got and got.body == b"2"
    assert headers(got)["x-death"][0]["reason"] == "rejected"
    assert get(client, "dead") is None
    assert drain(client, "q") == [b"1"]


def test_what_a_full_queue_drops(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx(x_max_length=2))
    client = open_channel(node)
    publish(client, "q", b"1", b"2", b"3", b"4")
    assert drain(client, "q") == [b"3", b"4"]
    got = get(client, "dead")
    assert headers(got)["x-death"][0]["reason"] == "maxlen"
    assert drain(client, "dead") == [b"2"]


def test_what_a_full_queue_refuses(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx(x_max_length=2, x_overflow="reject-publish-dlx"))
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, "q", b"1", b"2", b"3", b"4")
    nacks = [event.delivery_tag for event in client.events[1] if event.name == "basic.nack"]
    assert nacks and max(nacks) == 4
    assert drain(client, "q") == [b"1", b"2"]
    got = get(client, "dead")
    assert got and got.body == b"3" and headers(got)["x-death"][0]["reason"] == "maxlen"
    assert drain(client, "dead") == [b"4"]


def test_not_what_is_purged_or_goes_with_its_queue(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx())
    client = open_channel(node)
    publish(client, "q", b"1")
    client.call("queue.purge", 1, queue="q")
    publish(client, "q", b"2")
    client.call("queue.delete", 1, queue="q")
    assert node.state("dead").depth == 0


def test_repeats_are_counted_and_come_first(node: Node) -> None:
    node.declare("a", **dlx(key="b"))
    node.declare("b", **dlx(key="a"))
    client = open_channel(node)
    publish(client, "a", b"1")
    for queue in "aba":
        got = get(client, queue, no_ack=False)
        assert got
        client.send("basic.nack", 1, delivery_tag=got.delivery_tag, requeue=False)
        node.settle()
    got = get(client, "b")
    deaths = [(death["queue"], death["count"]) for death in headers(got)["x-death"]]
    assert deaths == [("a", 2), ("b", 1)]
    assert headers(got)["x-first-death-queue"] == "a"


def test_they_say_when_by_the_wall_clock(node: Node) -> None:
    node.declare("dead")
    node.declare("q", **dlx(x_max_length=0))
    node.shard(0).state.wall_ahead = 3_600_000_000
    client = open_channel(node)
    publish(client, "q", b"1")
    got = get(client, "dead")
    assert got and headers(got)["x-death"][0]["time"] == Timestamp(int(node.now) + 3600)


def test_deaths_that_say_the_same_are_one(node: Node) -> None:
    """Entries are from brokers before RabbitMQ 3.5, or made up; equal entries without a count are counted."""
    node.declare("dead")
    node.declare("q", **dlx(x_max_length=0))
    client = open_channel(node)
    said: list[tuple[str, dict[str, int]]] = [("a", {}), ("b", {}), ("a", {}), ("q", {}), ("q", {"count": 5})]
    deaths = [{"queue": queue, "reason": "maxlen", **count} for queue, count in said]
    publish(client, "q", b"1", headers={"x-death": [*deaths, "no death"]})
    found = headers(get(client, "dead"))["x-death"]
    assert [(death["queue"], death["count"]) for death in found] == [("q", 3), ("a", 2), ("b", 1)]


def test_a_circle_without_rejection_is_cut(node: Node) -> None:
    node.declare("a", **dlx(key="b", x_message_ttl=10))
    node.declare("b", **dlx(key="a", x_message_ttl=10))
    client = open_channel(node)
    publish(client, "a", b"1")
    pass_ms(node, 15)
    assert node.state("b").depth == 1
    pass_ms(node, 15)
    assert (node.state("a").depth, node.state("b").depth) == (0, 0)


def test_a_circle_with_a_rejection_goes_on(node: Node) -> None:
    """A common way to retry: by way of a queue with a TTL."""
    node.declare("work", **dlx(key="wait"))
    node.declare("wait", **dlx(key="work", x_message_ttl=10))
    client = open_channel(node)
    publish(client, "work", b"1")
    for turn in range(1, 4):
        got = get(client, "work", no_ack=False)
        assert got and got.body == b"1"
        client.send("basic.nack", 1, delivery_tag=got.delivery_tag, requeue=False)
        node.settle()
        assert node.state("wait").contents.ready == 1, turn
        pass_ms(node, 15)
    deaths = headers(get(client, "work"))["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        ("wait", "expired", 3), ("work", "rejected", 3),
    ]  # fmt: skip


def test_own_keys_and_carbon_copies(node: Node) -> None:
    node.ask("exchange_declare", name="x", type="topic")
    for name in ("one", "two", "three"):
        node.declare(name)
        node.ask("queue_bind", queue=name, source="x", key=name)
    node.declare("q", **dlx("x", None, x_max_length=0))
    node.ask("queue_bind", queue="q", source="amq.direct", key="one")
    client = open_channel(node)
    publish(client, "one", b"1", exchange="amq.direct", headers={"CC": ["two"]})
    got = get(client, "two")
    assert got and got.routing_key == "one"
    assert headers(got)["CC"] == ["two"]
    assert headers(got)["x-death"][0]["routing-keys"] == ["one", "two"]
    assert [node.state(name).depth for name in ("one", "two", "three")] == [1, 0, 0]


def test_with_a_key_of_its_own_the_copies_are_forgotten(node: Node) -> None:
    for name in ("dead", "two"):
        node.declare(name)
    node.declare("q", **dlx(x_max_length=0))
    node.ask("queue_bind", queue="q", source="amq.direct", key="k")
    client = open_channel(node)
    publish(client, "k", b"1", exchange="amq.direct", headers={"CC": ["two"], "BCC": ["three"]})
    assert node.state("two").depth == 0
    assert not {"CC", "BCC"} & headers(get(client, "dead")).keys()


# Delivery limit


def test_a_message_that_comes_back_too_often(node: Node) -> None:
    node.declare("dead")
    node.ask(
        "queue_declare", name="q", durable=True, arguments=dlx(x_queue_type="quorum", x_delivery_limit=2)
    )  # fmt: skip
    client = open_channel(node)
    publish(client, "q", b"1")
    for turn in range(3):
        got = get(client, "q", no_ack=False)
        assert got and got.redelivered == (turn > 0)
        assert got.properties.get("headers", {}).get("x-delivery-count") == (turn or None)
        client.send("basic.nack", 1, delivery_tag=got.delivery_tag, requeue=True)
        node.settle()
    assert get(client, "q") is None
    assert headers(get(client, "dead"))["x-death"][0]["reason"] == "delivery_limit"
    assert not node.state("q").contents.deliveries
    recount(node, "q")


def test_over_the_limit_without_an_exchange(node: Node) -> None:
    node.ask(
        "queue_declare", name="q", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 0}
    )  # fmt: skip
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    client.call("basic.consume", 1, queue="q")
    client.call("channel.close", 1, code=200)
    node.settle()
    assert node.state("q").depth == 0
    assert node.state("q").contents.totals.dropped == 2


# Bytes


def test_what_is_not_changed_keeps_its_bytes() -> None:
    table = {"n": 1, "t": [1, "a", {"b": None}], "l": 2**40, "x": b"\xff", "f": 1.5}
    properties = {"content_type": "a", "headers": table, "priority": 3, "expiration": "5", "timestamp": 9, "app_id": ""}
    nbytes = encode_properties(properties)
    split = split_properties(nbytes)
    assert list(split) == list(properties)
    assert join_properties(split) == nbytes
    assert join_table(split_table(split["headers"])) == split["headers"]
