"""Direct reply-to among joined cores: answers arrive from any acceptor, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.amqp.replies import PSEUDO_QUEUE, carrier, home_of, new_name
from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, shards=2) as node:
        node.declare("requests")
        yield node


def channel(node: Node, acceptor: int) -> Client:
    client = node.connect(acceptor)
    client.call("channel.open", 1)
    return client


def request(node: Node, client: Client, server: Client) -> Event:
    """Send a request, and return it as the server gets it."""
    client.publish(1, b"request", routing_key="requests", reply_to=PSEUDO_QUEUE, correlation_id="7")
    node.settle()
    server.send("basic.get", 1, queue="requests", no_ack=True)
    node.settle()
    return server.take("basic.get-ok", 1)


def finish_turn(node: Node, client: Client) -> None:
    """Have the acceptor of a client read everything sent and finish its turn; no shard has received that turn yet."""
    while client.read():
        pass
    node.finish(client.acceptor)


@pytest.mark.parametrize("acceptor", [0, 1])
def test_a_request_and_its_answers(node: Node, acceptor: int) -> None:
    client, server = channel(node, 0), channel(node, acceptor)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="t")
    asked = request(node, client, server)
    name = asked.properties["reply_to"]
    assert (asked.properties["correlation_id"], home_of(name)) == ("7", (0, 1))
    server.call("confirm.select", 1)
    for number in range(3):
        server.publish(1, b"%d" % number, routing_key=name, mandatory=True)
    node.settle()
    answers = [client.take("basic.deliver", 1) for _ in range(3)]
    assert [(event.body, event.delivery_tag) for event in answers] == [(b"0", 1), (b"1", 2), (b"2", 3)]
    assert {(event.consumer_tag, event.exchange, event.routing_key) for event in answers} == {("t", "", name)}
    assert set(server.names(1)) == {"basic.ack"}
    assert not client.connection.channels[1].unacked.total


def test_an_answer_is_confirmed_before_the_one_who_asked_has_it(node: Node) -> None:
    """The requester may close the responder's connection once it has the answer, as in NestJS's tests."""
    client, server = channel(node, 0), channel(node, 1)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    name = request(node, client, server).properties["reply_to"]
    server.call("confirm.select", 1)
    server.publish(1, b"answer", routing_key=name)
    finish_turn(node, server)
    assert server.names(1) == ["basic.ack"] and not client.names(1)
    node.settle()
    assert client.take("basic.deliver", 1).body == b"answer"
    assert server.names(1) == ["basic.ack"]


def test_an_answer_that_goes_to_a_queue_as_well_is_confirmed_when_that_keeps_it(node: Node) -> None:
    client, server = channel(node, 0), channel(node, 1)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    name = request(node, client, server).properties["reply_to"]
    server.call("confirm.select", 1)
    server.publish(1, b"both", routing_key="requests", headers={"BCC": [name]})
    finish_turn(node, server)
    assert not server.names(1)
    node.settle()
    assert server.names(1) == ["basic.ack"]


def test_an_answer_by_a_further_routing_key(node: Node) -> None:
    client, server = channel(node, 0), channel(node, 1)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    name = request(node, client, server).properties["reply_to"]
    server.publish(1, b"both", routing_key="requests", headers={"BCC": [name]})
    node.settle()
    assert client.take("basic.deliver", 1).body == b"both"
    assert node.state("requests").depth == 1


def test_a_name_lives_as_long_as_its_consumer(node: Node) -> None:
    client, server = channel(node, 0), channel(node, 1)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True, consumer_tag="t")
    name = request(node, client, server).properties["reply_to"]
    for asked in PSEUDO_QUEUE, name:
        found = server.call("queue.declare", 1, queue=asked, passive=True)
        assert (found.queue, found.messages, found.consumers) == (asked, 0, 1)
    client.call("basic.cancel", 1, consumer_tag="t")
    server.publish(1, b"late", routing_key=name, mandatory=True)
    node.settle()
    assert not server.names(1) and not client.names(1)
    server.send("queue.declare", 1, queue=name, passive=True)
    node.settle()
    closed = server.take("channel.close", 1)
    assert (closed.code, closed.text) == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'")
    assert not node.core(0).replies.channels


def test_what_ends_with_its_channel(node: Node) -> None:
    client = channel(node, 0)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    client.lose()
    node.settle()
    assert not node.core(0).replies.channels
    assert not any(link.replies for _, shard in node.running_shards() for link in shard.core.state.links.values())


def test_a_shard_that_comes_back_knows_the_names(node: Node) -> None:
    client, server = channel(node, 0), channel(node, 1)
    client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
    name = request(node, client, server).properties["reply_to"]
    node.kill_shard(carrier(name, range(2)))
    node.start_shard(carrier(name, range(2)))
    node.settle()
    assert server.call("queue.declare", 1, queue=name, passive=True).consumers == 1
    server.publish(1, b"answer", routing_key=name)
    node.settle()
    assert client.take("basic.deliver", 1).body == b"answer"


def test_what_is_no_name_has_no_route(node: Node) -> None:
    server = channel(node, 0)
    for name in PSEUDO_QUEUE, f"{PSEUDO_QUEUE}.foo", new_name(7, 1):
        server.publish(1, b"x", routing_key=name, mandatory=True)
    node.settle()
    assert server.names(1) == ["basic.return"] * 3
    server.publish(1, b"x", routing_key=new_name(1, 9), mandatory=True)
    node.settle()
    assert server.names(1) == ["basic.return"] * 3


def test_answers_that_nobody_reads_are_dropped() -> None:
    with Node(flow={"consumer_window_bytes": 65536}) as node:
        node.declare("requests")
        client, server = channel(node, 0), channel(node, 0)
        client.call("basic.consume", 1, queue=PSEUDO_QUEUE, no_ack=True)
        name = request(node, client, server).properties["reply_to"]
        node.core(0).delivery.writable(client.connection, False)
        for _ in range(8):
            server.publish(1, bytes(20_000), routing_key=name)
            node.settle()
        assert client.names(1) == ["basic.deliver"] * 4
        assert any("answers dropped" in line["event"] for line in node.logs)
        node.core(0).delivery.writable(client.connection, True)
        server.publish(1, b"again", routing_key=name)
        node.settle()
        assert client.events[1][-1].body == b"again"


def test_a_request_without_a_reply_consumer_is_refused(node: Node) -> None:
    client = channel(node, 0)
    client.publish(1, b"x", routing_key="requests", reply_to=PSEUDO_QUEUE)
    node.settle()
    closed = client.take("channel.close", 1)
    assert (closed.code, closed.text) == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")
    assert (closed.class_id, closed.method_id) == (60, 40)
