"""Queues that may stop nobody: beyond their marks they spill, at the limit of strangers their oldest messages go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.joined import Client, Node, open_channel
from tests.shard.steps import drain, get, publish, recount

MIB = 1 << 20
BODY = bytes(1000)
MARKS = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(stores=True, flow={"unprivileged_limit": MIB}) as node:
        node.policy("base", "", {"max-length": 100}, "node", vhost="")
        yield node


def subscribe(node: Node, **arguments: Any) -> tuple[Client, str]:
    """An exclusive queue that is bound to the fanout exchange."""
    owner = open_channel(node)
    queue = owner.call("queue.declare", 1, queue="own", exclusive=True, arguments=arguments).queue
    owner.call("queue.bind", 1, queue=queue, exchange="amq.fanout", routing_key="")
    return owner, queue


def logged(node: Node, words: str) -> list[dict[str, Any]]:
    return [each for each in node.logs if each["event"] == words]


def test_an_exclusive_queue_spills_instead_of_stopping_its_producers(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    publisher.call("confirm.select", 1)
    bodies = [b"%d" % number + BODY for number in range(900)]
    for at in range(0, len(bodies), 10):
        publish(publisher, "", *bodies[at : at + 10], exchange="amq.fanout")
    assert node.state(queue).depth == 900
    assert node.state(queue).contents.paged > 400_000
    assert publisher.connection.channels[1].held_by is None
    assert publisher.events[1][-1].delivery_tag == 900, "confirms are not withheld"
    (line,) = logged(node, "unprivileged queue spills")
    assert (line["queue"], line["why"], line["connection"]) == (queue, "exclusive queue", owner.connection.id)
    assert drain(owner, queue) == bodies
    recount(node, queue)


def test_at_its_limit_a_unprivileged_queue_loses_its_oldest(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    count = 3 * MIB // len(BODY)
    for number in range(count):
        publish(publisher, "", b"%d" % number + BODY, exchange="amq.fanout")
        state = node.state(queue)
        assert state.depth_bytes <= MIB
    assert len(logged(node, "unprivileged queue drops its oldest messages")) == 1
    recount(node, queue)
    left = [int(body[: -len(BODY)]) for body in drain(owner, queue)]
    assert left == list(range(count - len(left), count)) and len(left) > 900


def test_small_messages_count_as_well(node: Node) -> None:
    _, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "", *[b""] * 1000, exchange="amq.fanout")
    assert 64 * node.state(queue).depth <= MIB < 20_000 * 64


def test_without_marks_it_is_limited_all_the_same(node: Node) -> None:
    _, queue = subscribe(node, **{"x-flow": "off"})
    publisher = open_channel(node)
    for _ in range(30):
        publish(publisher, "", *[BODY] * 100, exchange="amq.fanout")
    assert node.state(queue).depth_bytes < MIB


def test_a_policy_lets_it_stop_producers(node: Node) -> None:
    """And takes that back: who is held goes on."""
    _, queue = subscribe(node, **MARKS)
    publisher = open_channel(node)
    node.policy("trusted", "^own$", {"overflow": "flow"})
    for _ in range(10):
        publish(publisher, "", *[BODY] * 10, exchange="amq.fanout")
    assert 20 <= node.state(queue).depth < 40
    assert publisher.connection.channels[1].held_by is not None
    node.policy("trusted", "^own$", None)
    node.settle()
    assert node.state(queue).depth == 100
    assert publisher.connection.channels[1].held_by is None


def test_a_queue_nobody_consumed_from_stops_producers_once_somebody_does(node: Node) -> None:
    """It has the node's limit: nobody chose one."""
    node.declare("q")
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "q", *[BODY] * 10)
    assert node.state("q").depth == 200
    assert get(publisher, "q", no_ack=False)
    publish(publisher, "q", *[b"held"] * 10)
    assert node.state("q").depth <= 201
    assert publisher.connection.channels[1].held_by is not None


def test_durable_and_named_queues_stop_producers(node: Node) -> None:
    node.declare("q", durable=True)
    publisher = open_channel(node)
    publish(publisher, "q", *[BODY] * 100)
    publish(publisher, "q", *[BODY] * 100)
    assert node.state("q").depth < 100


def test_events_for_the_owner(node: Node) -> None:
    owner, queue = subscribe(node, **MARKS)
    owner.call("queue.declare", 1, queue="events", exclusive=True)
    owner.call("queue.bind", 1, queue="events", exchange="amq.flow", routing_key="#")
    publisher = open_channel(node)
    for _ in range(20):
        publish(publisher, "", *[BODY] * 100, exchange="amq.fanout")
    keys = []
    while (event := get(owner, "events")) is not None:
        keys.append(event.routing_key)
        assert event.properties["headers"]["why"] == "exclusive queue"
    assert keys == [f"spills./.{queue}", f"drops./.{queue}"]
