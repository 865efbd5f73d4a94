"""A channel's publishes: refused ones, unroutable ones, and the order in which the rest pass the gates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.asking import Answer
from acceptor.clients.parked import ParkedRun
from acceptor.publishing.publishing import AGE_MS
from tests.frames import BODY, Event, frame, header_frame
from tests.shard.steps import drain, get
from tests.shard.steps import publish as publish_bodies
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("free")
        yield node


@pytest.fixture
def client(node: Node) -> Client:
    client = open_channel(node)
    client.call("confirm.select", 1)
    return client


def publish(client: Client, queue: str, count: int) -> None:
    for number in range(count):
        client.publish(1, b"%d" % number, routing_key=queue)


def settled(client: Client, *names: str) -> list[Event]:
    """Let everything settle; return the channel's events with these names."""
    client.node.settle(1)
    return [event for event in client.events[1] if event.name in names]


def test_an_immediate_publish_ends_the_connection_as_in_rabbitmq(client: Client) -> None:
    client.send("basic.publish", 1, routing_key="free", immediate=True)
    client.write(header_frame(1, 1, {}) + frame(BODY, 1, b"m"))
    client.node.settle()
    closing = client.take("connection.close")
    assert (closing.code, closing.text) == (540, "NOT_IMPLEMENTED - immediate=true")
    assert (closing.class_id, closing.method_id) == (60, 40)


def test_a_publish_to_no_exchange_closes_its_channel_and_those_before_it_are_accepted(
    node: Node, client: Client
) -> None:
    publish(client, "free", 2)
    client.publish(1, b"m", exchange="none", routing_key="free")
    publish(client, "free", 2)
    node.settle()
    closing = client.take("channel.close", 1)
    assert (closing.code, closing.text) == (404, "NOT_FOUND - no exchange 'none' in vhost '/'")
    assert (closing.class_id, closing.method_id) == (60, 40)
    assert drain(open_channel(node), "free") == [b"0", b"1"]


def test_a_mandatory_publish_without_a_queue_is_returned_before_it_is_confirmed(client: Client) -> None:
    client.publish(1, b"nowhere", routing_key="none", mandatory=True)
    client.publish(1, b"nowhere", routing_key="none")
    returned, *acks = settled(client, "basic.return", "basic.ack", "basic.nack")
    assert (returned.name, returned.code, returned.text) == ("basic.return", 312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key, returned.body) == ("", "none", b"nowhere")
    assert {ack.name for ack in acks} == {"basic.ack"} and max(ack.delivery_tag for ack in acks) == 2


def test_an_exchange_that_is_deleted_ends_a_channel_with_publishes_parked_for_it(node: Node, client: Client) -> None:
    node.declare("full", **FLOW)
    node.bind("x", "full")
    for _ in range(2):
        publish_bodies(client, "", *[b"m"] * 5, exchange="x")
    assert client.connection.channels[1].inbox
    node.ask("exchange_delete", name="x")
    node.settle()
    assert client.take("channel.close", 1).code == 404
    assert node.state("full").depth == 5


@pytest.mark.parametrize("ttl", [None, 60_000])
@pytest.mark.parametrize("expiration", [None, "60000"])
def test_the_age_of_a_parked_message_is_sent_along_if_the_message_may_expire(
    node: Node, ttl: int | None, expiration: str | None
) -> None:
    """Messages that waited only for their turn count as fresh, and are joined to others."""
    node.declare("full", **FLOW, **({} if ttl is None else {"x-message-ttl": ttl}))
    client = open_channel(node)
    publish(client, "full", 5)
    node.settle()
    client.publish(1, b"parked", routing_key="full", **({} if expiration is None else {"expiration": expiration}))
    node.settle()
    core, channel = node.core(0), client.connection.channels[1]
    (run,) = channel.inbox
    assert isinstance(run, ParkedRun) and channel.route is not None
    for milliseconds in (AGE_MS - 1, AGE_MS + 2, 5000):
        core.state.now = run.since + milliseconds / 1000
        age = core.services.publishing.age_of(channel, run, channel.route, 1)
        if (ttl or expiration) and milliseconds > AGE_MS:
            assert age == pytest.approx(milliseconds, abs=1)
        else:
            assert age == 0


# Order


def test_messages_of_one_run_that_finds_room_for_a_part_keep_their_order(node: Node, client: Client) -> None:
    node.declare("full", **FLOW)
    publish(client, "full", 20)
    node.settle(1)
    reader, found = open_channel(node), list[bytes]()
    while (event := get(reader, "full")) is not None:
        found.append(event.body)
        node.settle(1)
    assert found == [b"%d" % number for number in range(20)]
    acks = settled(client, "basic.ack")
    assert max(event.delivery_tag for event in acks) == 20


def test_what_waits_behind_a_share_does_not_wait_for_a_recheck(node: Node) -> None:
    """A channel let in to one queue goes on with its publishes for another as soon as its turn comes."""
    node.declare("one", **{"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 100})
    node.declare("two", **FLOW)
    client = open_channel(node)
    publish(client, "one", 318 + 218)
    publish(client, "two", 1)
    node.settle(2)
    assert node.state("one").depth == 318
    reader = open_channel(node)
    for _ in range(218):
        reader.send("basic.get", 1, queue="one", no_ack=True)
    node.settle()
    assert (node.state("one").depth, node.state("two").depth) == (318, 1)


def test_a_newcomer_overtakes_nobody_with_what_comes_second(node: Node) -> None:
    """Of two publishes that waited for a method's answer, the second may be for a queue where others wait."""
    node.declare("q", **FLOW)
    node.declare("free")
    first, second = open_channel(node), open_channel(node)
    publish(first, "q", 4)
    first.read()
    node.finish(0)
    publish(first, "q", 2)
    first.read()
    assert first.connection.channels[1].gates
    second.send("basic.get", 1, queue="free")
    second.read()
    publish(second, "free", 1)
    publish(second, "q", 1)
    second.read()
    queue_gate = node.core(0).gates.queue_gates[node.queue("q").queue_id]
    queue_gate.in_flight = 0
    second.connection.channels[1].resume(Answer(None, None))
    assert list(queue_gate.waiting) == [first.connection.channels[1], second.connection.channels[1]]
