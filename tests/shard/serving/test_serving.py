"""Serving a queue: deliveries to consumers, expiry, drops, and the reports to acceptors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.bus.operations_cy import to_wires
from penstock.bus.to_acceptor import OPERATIONS, Elected, Hungry
from penstock.memory.gauges import STARTING
from shard.queue.residence import Step
from tests.shard.steps import drain, pass_ms, publish
from tests.simulator.joined.client import Client
from tests.simulator.joined.lines import unpacked
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def consuming(node: Node, queue: str, prefetch: int = 0, **options: Any) -> Client:
    client = open_channel(node)
    client.call("basic.qos", 1, prefetch_count=prefetch)
    client.call("basic.consume", 1, queue=queue, **options)
    return client


def delivered(client: Client) -> list[bytes]:
    return [event.body for event in client.events[1] if event.name == "basic.deliver"]


def test_a_frozen_queue_neither_delivers_nor_drops(node: Node) -> None:
    node.declare("q", **{"x-max-length": 1})
    client = consuming(node, "q", prefetch=1)
    queue = node.state("q")
    queue.move(Step.COME_HOME)
    publish(client, "q", b"1", b"2", b"3")
    assert delivered(client) == [] and queue.contents.ready == 3
    queue.move(Step.REATTACH)
    node.shard(0).serving.serve_now(queue)
    node.settle()
    assert delivered(client) == [b"1"] and drain(client, "q") == [b"3"]


def test_messages_of_a_frozen_queue_expire_once_it_goes_on(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 1000})
    publish(open_channel(node), "q", b"m")
    queue = node.state("q")
    queue.move(Step.COME_HOME)
    client = consuming(node, "q")
    pass_ms(node, 2000)
    node.shard(0).serving.serve_now(queue)
    assert queue.contents.ready == 1
    queue.move(Step.REATTACH)
    node.shard(0).serving.serve_now(queue)
    node.settle()
    assert delivered(client) == [] and (queue.contents.ready, queue.contents.totals.dropped) == (0, 1)


def test_consumers_are_served_before_the_excess_is_dropped(node: Node) -> None:
    node.declare("q", **{"x-max-length": 1})
    client = consuming(node, "q", prefetch=2)
    publish(client, "q", b"1", b"2", b"3", b"4")
    assert delivered(client) == [b"1", b"2"]
    assert drain(open_channel(node), "q") == [b"4"]


def test_messages_without_time_to_live_go_to_waiting_consumers_only(node: Node) -> None:
    """RabbitMQ's "immediate": a message expires at once unless a consumer has credit for it."""
    node.declare("q", **{"x-message-ttl": 0})
    client = consuming(node, "q", prefetch=2)
    publish(client, "q", b"1", b"2", b"3")
    assert delivered(client) == [b"1", b"2"]
    assert (node.state("q").contents.ready, node.state("q").contents.totals.dropped) == (0, 1)


def test_expired_messages_are_not_delivered(node: Node) -> None:
    node.declare("q", **{"x-message-ttl": 1000})
    publish(open_channel(node), "q", b"old")
    queue = node.state("q")
    node.now += 0.6
    publish(open_channel(node), "q", b"young")
    node.now += 0.6
    client = consuming(node, "q", no_ack=True)
    assert delivered(client) == [b"young"] and queue.contents.totals.dropped == 1


def test_nothing_is_delivered_or_elected_before_recovery_ends(node: Node) -> None:
    node.declare("q", **{"x-single-active-consumer": True})
    core, client = node.shard(0), consuming(node, "q")
    (consumer,) = node.state("q").ring.consumers
    node.gauges.process_write("acceptor", 0, pid=1, incarnation=2, state=STARTING, started_us=0, restarts=1)
    core.state.incarnation = 2
    core.await_acceptors()
    consumer.elected = False
    publish(client, "q", b"m")
    core.serving.elect(node.state("q"))
    assert delivered(client) == [] and not consumer.elected
    pass_ms(node, 10_000)
    assert delivered(client) == [b"m"] and consumer.elected


def test_the_next_active_consumer_is_announced_once(node: Node) -> None:
    node.declare("q", **{"x-single-active-consumer": True})
    first, _ = consuming(node, "q", consumer_tag="first"), consuming(node, "q")
    core, queue = node.shard(0), node.state("q")
    link = core.state.links[b"acceptor.0.1"]
    active, following = queue.ring.consumers
    assert (active.elected, following.elected) == (True, False)
    core.serving.elect(queue)
    assert not link.turn.operations
    first.send("basic.cancel", 1, consumer_tag="first")
    first.read()
    node.finish(0)
    node.send_up(0, 0)
    assert to_wires([Elected(following.id)])[0] in to_wires(link.turn.operations) and following.elected


def test_acceptors_are_told_once_that_consumers_lack_a_grant() -> None:
    """The consumers of a channel share its prefetch over two shards: their acceptor grants each shard its part."""
    with Node(shards=2) as node:
        node.declare("q", 0)
        node.declare("other", 1)
        client, publisher = open_channel(node), open_channel(node)
        client.call("basic.qos", 1, prefetch_count=4, global_=True)
        for queue in "q", "other":
            client.call("basic.consume", 1, queue=queue)
        (consumer,) = node.state("q").ring.consumers
        reported = []
        for body in b"1", b"2":
            publisher.publish(1, body, routing_key="q")
            publisher.read()
            node.finish(0)
            node.send_up(0, 0)
            node.finish_shard(0)
            (frames,) = list(node.down[0, 0])[-1:]
            reported += [each for each in unpacked(frames, OPERATIONS)[3] if isinstance(each, Hungry)]
        assert reported == [Hungry(consumer.group.id)] and delivered(client) == []
        node.settle()
        assert delivered(client) == [b"1", b"2"]
