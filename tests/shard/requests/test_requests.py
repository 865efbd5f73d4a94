"""Purges, deletions and descriptions of queues, as acceptors ask for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.bus.to_acceptor import Reply
from penstock.bus.to_shard import Delete, Purge, Stat
from tests.shard.steps import drain, get, pass_ms, publish
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_conditions_of_a_delete(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    other = node.connect()
    for channel, condition, text in (1, "if_unused", "in use"), (2, "if_empty", "not empty"):
        if condition == "if_empty":
            client.call("basic.cancel", 1, consumer_tag="c")
            publish(client, "q", b"m")
        other.call("channel.open", channel)
        other.send("queue.delete", channel, queue="q", **{condition: True})
        node.settle()
        refused = other.take("channel.close", channel)
        assert (refused.code, refused.text) == (406, f"PRECONDITION_FAILED - queue 'q' in vhost '/' {text}")
    assert client.call("queue.delete", 1, queue="q").messages == 1
    assert client.call("queue.delete", 1, queue="q").messages == 0


def test_a_purge_drops_ready_messages_only(node: Node) -> None:
    node.declare("q")
    client = open_channel(node)
    publish(client, "q", b"unacked", b"1", b"2")
    event = get(client, "q", no_ack=False)
    assert event is not None
    assert client.call("queue.purge", 1, queue="q").messages == 2
    client.send("basic.nack", 1, delivery_tag=event.delivery_tag, requeue=True)
    node.settle()
    assert drain(client, "q") == [b"unacked"]


@pytest.mark.parametrize(
    ("method", "arguments"), [("queue.declare", {"passive": True}), ("queue.purge", {}), ("queue.delete", {})]
)
def test_earlier_publishes_of_the_turn_are_delivered_before_the_reply(
    node: Node, method: str, arguments: dict[str, bool]
) -> None:
    """A consumer already has the messages, so the reply counts none."""
    node.declare("q")
    consumer, client = open_channel(node), open_channel(node)
    consumer.call("basic.consume", 1, queue="q", no_ack=True)
    client.publish(1, b"m", routing_key="q")
    client.send(method, 1, queue="q", **arguments)
    node.settle()
    assert client.take(f"{method}-ok", 1).messages == 0
    assert consumer.take("basic.deliver", 1).body == b"m"


def test_a_description_counts_ready_messages_and_consumers_and_uses_the_queue(node: Node) -> None:
    """A passive declare keeps a queue with `x-expires` from expiring."""
    node.declare("q", **{"x-expires": 1000})
    client = open_channel(node)
    publish(client, "q", b"1", b"2")
    pass_ms(node, 900)
    declared = client.call("queue.declare", 1, queue="q", passive=True)
    assert (declared.messages, declared.consumers) == (2, 0)
    pass_ms(node, 900)
    client.call("basic.consume", 1, queue="q", no_ack=True)
    declared = client.call("queue.declare", 1, queue="q", passive=True)
    assert (declared.messages, declared.consumers) == (0, 1)


def test_requests_about_an_unknown_queue(node: Node) -> None:
    """A deletion has nothing to do; a purge and a description are refused."""
    open_channel(node)
    core = node.shard(0)
    link = core.state.links[b"acceptor.0.1"]
    before = len(link.turn.operations)
    for request in Purge(999, 7), Stat(999, 8), Delete(999, False, False, 9):
        core.operations[type(request)](link, request)
    assert link.turn.operations[before:] == [
        Reply(7, None, [404, "no such queue"]),
        Reply(8, None, [404, "no such queue"]),
        Reply(9, 0),
    ]
