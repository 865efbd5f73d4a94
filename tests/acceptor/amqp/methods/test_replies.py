"""Methods on the pseudo-queue of direct replies, or on the name of a reply consumer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.amqp.replies import PSEUDO_QUEUE, carrier, new_name
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        yield node


@pytest.mark.parametrize(
    ("no_acks", "text"),
    [([False], "reply consumer cannot acknowledge"), ([True, True], "reply consumer already set")],
)
def test_a_channel_has_one_reply_consumer_without_acks(
    node: Node, client: Client, no_acks: list[bool], text: str
) -> None:
    for no_ack in no_acks:
        client.send("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=no_ack)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text) == (406, f"PRECONDITION_FAILED - {text}")
    assert (closed.class_id, closed.method_id) == (60, 20)
    assert not node.core(0).replies.channels


def test_a_cancelled_reply_consumer_may_be_replaced(node: Node, client: Client) -> None:
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="t")
    client.call("basic.cancel", 1, consumer_tag="t")
    assert not node.core(0).replies.channels
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="t")
    assert len(node.core(0).replies.channels) == 1


def test_consume_ok_waits_until_the_shard_that_passes_on_answers_knows_the_name(node: Node, client: Client) -> None:
    client.send("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    client.read()
    node.finish(0)
    assert not client.names(1)
    (name,) = node.core(0).replies.channels
    home = carrier(name, range(2))
    node.send_up(0, home)
    node.finish_shard(home)
    node.send_down(home, 0)
    node.finish(0)
    assert client.names(1) == ["basic.consume-ok"]


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_a_name_says_whether_its_consumer_exists_and_makes_no_queue(
    node: Node, client: Client, passive: bool
) -> None:
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    (name,) = node.core(0).replies.channels
    for asked in (PSEUDO_QUEUE, name):
        found = client.call("queue.declare", 1, queue=asked, passive=passive)
        assert (found.queue, found.messages, found.consumers) == (asked, 0, 1)
    unknown = new_name(0, 1)
    client.send("queue.declare", 1, queue=unknown, passive=passive)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text) == (404, f"NOT_FOUND - no queue '{unknown}' in vhost '/'")
    assert not list(node.router.topology.queues())


def test_without_an_answer_wanted_there_is_none(node: Node, client: Client) -> None:
    client.send("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, nowait=True)
    client.send("queue.declare", 1, queue=PSEUDO_QUEUE, nowait=True)
    node.settle()
    assert not client.names(1)
    assert len(node.core(0).replies.channels) == 1
