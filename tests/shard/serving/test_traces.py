"""Traced messages in their queues: delivered, settled, requeued, stored, and gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shard.serving.traces import FOLLOWED
from tests.shard.steps import drain, get, pass_ms, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(2, traces={"ratio": 1}) as node:
        node.declare("q")
        yield node


def recorded(node: Node, name: str) -> list[dict[str, Any]]:
    found = node.shard(0).traces.spans.report(0)["spans"]
    return [span for span in found if span["name"] == name]


def outcomes(node: Node, name: str) -> list[str]:
    return [span["attributes"]["outcome"] for span in recorded(node, name)]


def consume(node: Node, acceptor: int = 1, queue: str = "q", **options: Any) -> Client:
    client = open_channel(node, acceptor)
    client.call("basic.consume", 1, queue=queue, **options)
    node.settle()
    return client


def test_a_requeued_message_is_in_its_queue_again(node: Node) -> None:
    publish(open_channel(node), "q", b"m")
    consumer = consume(node)
    pass_ms(node, 100)
    consumer.send("channel.close", 1, code=200, text="", class_id=0, method_id=0)
    node.settle()
    assert (outcomes(node, "queue"), outcomes(node, "process")) == (["delivered"], ["requeued"])
    pass_ms(node, 300)
    other = consume(node)
    other.send("basic.ack", 1, delivery_tag=other.take("basic.deliver", 1).delivery_tag)
    node.settle(1)
    first, second = recorded(node, "queue")
    assert (first["trace"], first["parent"]) == (second["trace"], second["parent"])
    assert first["span"] != second["span"]
    assert second["end"] - second["begin"] == pytest.approx(300_000, abs=60_000)
    assert outcomes(node, "process") == ["requeued", "settled"]
    assert not node.shard(0).traces.is_following()


def test_a_message_that_goes_from_hand_to_hand_was_requeued(node: Node) -> None:
    publish(open_channel(node), "q", b"m")
    first = consume(node)
    consume(node, 0)
    first.send("channel.close", 1, code=200, text="", class_id=0, method_id=0)
    node.settle()
    assert (outcomes(node, "queue"), outcomes(node, "process")) == (["delivered", "delivered"], ["requeued"])


def test_the_death_of_the_consumers_acceptor_requeues(node: Node) -> None:
    publish(open_channel(node), "q", b"m")
    consume(node)
    node.kill_acceptor(1)
    node.settle(1)
    assert outcomes(node, "process") == ["requeued"]


def test_priorities_overtake(node: Node) -> None:
    node.declare("p", **{"x-max-priority": 5})
    producer = open_channel(node)
    publish(producer, "p", b"low", priority=1)
    publish(producer, "p", b"high", priority=4)
    assert get(producer, "p", no_ack=False) is not None
    node.settle()
    (high,) = recorded(node, "queue")
    assert high["trace"] == node.core(0).state.tracing.spans.report(0)["spans"][1]["trace"]
    assert get(producer, "p", no_ack=False) is not None
    node.settle()
    assert outcomes(node, "queue") == ["delivered", "delivered"]


@pytest.mark.parametrize(
    "arguments", [{"qpid.last_value_queue_key": "k"}, {"qpid.last_value_queue_key": "k", "x-max-length": 3}]
)
def test_last_values_are_not_followed(node: Node, arguments: dict[str, Any]) -> None:
    node.declare("l", **arguments)
    client = open_channel(node)
    publish(client, "l", b"1", b"2", headers={"k": "v"})
    assert not node.shard(0).traces.is_following()
    assert drain(client, "l") == [b"2"]


def test_messages_that_expire_or_are_purged_leave(node: Node) -> None:
    node.declare("t", **{"x-message-ttl": 100})
    client = open_channel(node)
    publish(client, "t", b"m")
    publish(client, "q", b"m")
    pass_ms(node, 200)
    node.settle(1)
    client.call("queue.purge", 1, queue="q")
    node.settle(1)
    assert outcomes(node, "queue") == ["left", "left"]
    assert not node.shard(0).traces.is_following()


def test_a_deleted_queue_is_forgotten(node: Node) -> None:
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    consume(node)
    client.call("queue.delete", 1, queue="q")
    node.settle(1)
    assert not node.shard(0).traces.is_following()


def test_so_many_are_followed(node: Node) -> None:
    client = open_channel(node)
    for second in range(4):
        publish(client, "q", *[b"%d" % second] * 100)
        pass_ms(node, 1000)
    assert len(drain(client, "q")) == 400
    node.settle()
    assert len(recorded(node, "queue")) == FOLLOWED


def test_when_a_persistent_message_was_stored() -> None:
    with Node(stores=True, traces={"ratio": 1}) as node:
        node.declare("d", durable=True)
        client = open_channel(node)
        node.commits = False
        publish(client, "d", b"1", delivery_mode=2)
        publish(client, "d", b"2")
        assert recorded(node, "store") == []
        pass_ms(node, 400)
        node.commits = True
        node.settle(1)
        (stored,) = recorded(node, "store")
        assert stored["end"] - stored["begin"] >= 400_000
