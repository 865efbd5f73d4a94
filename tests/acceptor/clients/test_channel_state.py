"""The state of a channel: its waits, its unsettled deliveries, and the error texts that end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.amqp.channel import Channel
from acceptor.clients.channel_stage import DETACHED
from acceptor.clients.inbox import EMPTY
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel, parked

MARKS = {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 0}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("q")
        node.declare("other", 1)
        node.declare("full", **MARKS)
        yield node


def publish(client: Client, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(1, body, routing_key=queue)
    client.node.settle()


def test_channels_share_an_empty_inbox_until_something_waits(node: Node, client: Client, channel: Channel) -> None:
    client.call("channel.open", 2)
    publish(client, "full", *[b"m"] * 5)
    assert len(parked(channel)) > 0
    assert client.connection.channels[2].inbox is EMPTY and not EMPTY
    client.call("channel.close", 1)
    assert not EMPTY


def test_consumers_of_a_queue_that_moves_belong_to_no_shard(node: Node, client: Client, channel: Channel) -> None:
    for tag, queue in (("a", "q"), ("b", "q"), ("c", "other")):
        client.call("basic.consume", 1, queue=queue, consumer_tag=tag)
    ids = {tag: consumer.id for tag, consumer in channel.consumers.items()}
    assert channel.consumers_by_shard() == {0: [ids["a"], ids["b"]], 1: [ids["c"]]}
    unassigned = ids["b"] & ~255 | node.core(0).state.nowhere
    node.core(0).delivery.rename(channel.consumers["b"], unassigned)
    assert channel.consumers_by_shard() == {0: [ids["a"]], 1: [ids["c"]]}


def test_a_channel_has_something_to_settle_until_its_acks_are_committed(
    node: Node, client: Client, channel: Channel
) -> None:
    client.call("tx.select", 1)
    open_channel(node).publish(1, b"m", routing_key="q")
    node.settle()
    assert not channel.settles()
    client.send("basic.get", 1, queue="q")
    node.settle()
    assert channel.has_in_hand() and channel.settles()
    client.send("basic.ack", 1, delivery_tag=1)
    node.settle()
    assert not channel.unacked.total and channel.has_in_hand()
    assert channel.transactions() == [channel.transaction]
    client.call("tx.commit", 1)
    assert not channel.has_in_hand() and not channel.settles()


def test_the_size_is_that_of_a_message_of_the_first_parked_run(client: Client, channel: Channel) -> None:
    assert channel.size() == 1
    publish(client, "full", *[b"m"] * 3)
    assert not channel.inbox
    publish(client, "full", bytes(10_000), bytes(10_000))
    assert 10_000 <= channel.size() < 11_000


def test_a_held_channel_names_the_gate_that_its_client_was_notified_of(client: Client, channel: Channel) -> None:
    assert channel.cause() is None
    publish(client, "full", *[b"m"] * 5)
    assert channel.cause() is channel.held_by is channel.gates[0]
    channel.hold = None
    assert channel.cause() is channel.gates[0]


def test_a_detached_channel_says_nothing_to_the_client(node: Node, client: Client, channel: Channel) -> None:
    client.call("confirm.select", 1)
    heir = channel.heir()
    assert heir.stage is DETACHED and heir.number == channel.number and heir.group != channel.group
    heir.send("channel_flow", active=False)
    heir.confirmed()
    node.settle()
    assert not client.names(1) and heir not in node.core(0).state.confirming


def test_a_channel_that_is_closed_for_a_timeout_names_no_method_of_the_client(
    node: Node, client: Client, channel: Channel
) -> None:
    client.call("basic.consume", 1, queue="q")
    channel.time_out(1500)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.class_id, closed.method_id) == (406, 0, 0)
    assert closed.text == (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1500 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )


def test_log_lines_tell_a_channel_from_others(client: Client, channel: Channel) -> None:
    assert channel.whose() == {**client.connection.whose(), "channel": 1}
