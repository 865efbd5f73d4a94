"""A consumer as its acceptor knows it: its shard, its part of basic.deliver, and the operation that attaches it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.consumers import Consumer
from tests.frames import Event
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        node.declare("q", 1)
        yield node


def consume(client: Client, tag: str = "t", **options: object) -> Consumer:
    client.call("basic.consume", 1, queue="q", consumer_tag=tag, **options)
    found = client.connection.channels[1].consumers[tag]
    assert found.tag == tag
    return found


@pytest.mark.parametrize("tag", ["t", "gr\u00fc\u00dfe", "t" * 255])
def test_deliveries_have_the_tag_that_the_client_has_chosen(node: Node, client: Client, tag: str) -> None:
    consume(client, tag)
    client.publish(1, b"m", routing_key="q")
    node.settle()
    event: Event = client.take("basic.deliver", 1)
    assert (event.consumer_tag, event.body) == (tag, b"m")


def test_the_shard_is_the_lowest_byte_of_the_id(node: Node, client: Client) -> None:
    consumer = consume(client)
    assert consumer.shard == consumer.queue.shard == 1
    consumer.id += 1 << 8
    assert consumer.shard == 1
    node.core(0).delivery.rename(consumer, consumer.id & ~255 | node.core(0).state.nowhere)
    assert consumer.shard == node.core(0).state.nowhere == 2


def test_a_consumer_is_attached_again_by_its_group_and_age(client: Client) -> None:
    consumer = consume(client)
    request = consumer.request()
    assert (request.consumer, request.queue) == (consumer.id, consumer.queue.queue_id)
    assert request.group == client.connection.channels[1].group
    assert request.age == consumer.age > 0


@pytest.mark.parametrize("lease", [None, ("lease", 60_000_000, "ack")])
def test_only_a_leased_consumer_sends_its_lease(client: Client, lease: tuple[str, int, str] | None) -> None:
    arguments = {} if lease is None else {"x-lease": "lease", "x-lease-expires": 60_000, "x-lease-end": "ack"}
    consumer = consume(client, arguments=arguments)
    assert consumer.lease == lease
    assert consumer.request().lease == lease


def test_a_consumer_is_attached_as_active_only_while_deliveries_may_go_to_it(client: Client) -> None:
    consumer = consume(client)
    channel = client.connection.channels[1]
    for delivers, withheld in ((False, False), (True, True), (False, True)):
        channel.receiving.active, client.connection.deliveries_withheld = delivers, withheld
        assert not consumer.request().active
    channel.receiving.active, client.connection.deliveries_withheld = True, False
    assert consumer.request().active
