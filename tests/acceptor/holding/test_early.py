"""Early notices: delivery, retraction, and the choice by rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from acceptor.clients.traffic import RECENT_SECONDS
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

MARKS = {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("work", **MARKS)
        node.declare("other")
        yield node


def publisher(
    node: Node, properties: dict[str, Any] = JAVA, count: int = 5, queue: str = "work", blocked: bool = False
) -> Client:
    client = open_channel(node, properties=properties, capabilities={"connection.blocked": blocked})
    publish(client, count, queue)
    return client


def publish(client: Client, count: int, queue: str = "work") -> None:
    for _ in range(count):
        client.publish(1, b"", routing_key=queue)
    client.node.settle()


def fill(node: Node) -> None:
    """Fill the queue from another client; the stop still holds at the next recheck."""
    publish(open_channel(node), 30)
    node.settle(1)


def purge(node: Node) -> None:
    open_channel(node).call("queue.purge", 1, queue="work")
    node.settle()


def flows(client: Client) -> list[bool]:
    """Remove the events of Channel.Flow that a client was sent; return whether each was active."""
    reports = [event.active for event in client.events[1] if event.name == "channel.flow"]
    while "channel.flow" in client.names(1):
        client.take("channel.flow", 1)
    return reports


def is_warned(client: Client) -> bool:
    return client.connection.channels[1].notices.early is not None


def test_who_published_before_is_told_when_the_queue_stops_and_when_it_resumes(node: Node) -> None:
    java, blocked = publisher(node), publisher(node, {}, blocked=True)
    fill(node)
    assert flows(java) == [False]
    assert "of 20 messages" in blocked.take("connection.blocked", 0).reason
    for client in (java, blocked):
        assert client.connection.channels[1].held_by is None
    purge(node)
    assert flows(java) == [True]
    blocked.take("connection.unblocked", 0)
    assert not is_warned(java)


def test_who_fills_it_is_told_though_nothing_of_it_waits(node: Node) -> None:
    client = publisher(node, count=21)
    node.settle(1)
    assert client.connection.channels[1].held_by is None
    assert flows(client) == [False]


def test_a_stop_that_is_over_at_the_next_look_is_not_told(node: Node) -> None:
    client = publisher(node)
    publish(open_channel(node), 16)
    assert node.core(0).gates.stopped
    purge(node)
    node.settle(1)
    assert flows(client) == []


def test_who_publishes_on_is_held_and_told_nothing_twice(node: Node) -> None:
    client = publisher(node, blocked=True)
    fill(node)
    client.take("connection.blocked", 0)
    publish(client, 3)
    assert client.connection.channels[1].held_by is not None
    assert not is_warned(client)
    assert flows(client) == [False]
    purge(node)
    assert flows(client) == [True]
    assert client.names(0) == ["connection.unblocked"]


def test_a_connection_that_is_blocked_already_is_not_told_the_same_again(node: Node) -> None:
    """One of its channels is warned of another queue, then held by the queue that its client was notified of."""
    node.declare("more", **MARKS)
    client = publisher(node, {}, blocked=True)
    client.call("channel.open", 2)
    for _ in range(5):
        client.publish(2, b"", routing_key="more")
    publish(client, 30)
    client.take("connection.blocked", 0)
    publish(open_channel(node), 30, "more")
    node.settle(1)
    assert client.connection.channels[2].notices.early is not None
    client.publish(2, b"", routing_key="work")
    node.settle()
    assert str(client.connection.channels[2].held_by) == str(client.connection.channels[1].held_by)
    assert client.names(0) == []


@pytest.mark.parametrize("rate", [0.2, 0.0])
def test_it_is_a_choice_by_rate(rate: float) -> None:
    """A producer that publishes rarely is notified at its next publish; at a rate of 0 so is every producer."""
    with Node(flow={"early_rate": rate}) as node:
        node.declare("work", **MARKS)
        often, rarely = publisher(node, count=5), publisher(node, count=1)
        fill(node)
        assert flows(often) == ([False] if rate else [])
        assert flows(rarely) == []
        publish(rarely, 1)
        assert flows(rarely) == [False]


def test_what_was_published_long_ago_does_not_count(node: Node) -> None:
    client = publisher(node)
    for _ in range(int(3 * RECENT_SECONDS)):
        node.core(0).tick()
    fill(node)
    assert flows(client) == []


def test_who_publishes_elsewhere_settles_or_cannot_be_told_is_not(node: Node) -> None:
    elsewhere, settles, deaf = publisher(node, queue="other"), publisher(node), publisher(node, {})
    settles.call("basic.consume", 1, queue="other")
    fill(node)
    assert flows(elsewhere) == flows(settles) == []
    assert not any(map(is_warned, (elsewhere, settles, deaf)))


def test_who_begins_to_settle_may_go_on(node: Node) -> None:
    client = publisher(node, blocked=True)
    fill(node)
    client.take("connection.blocked", 0)
    client.send("basic.consume", 1, queue="other")
    node.settle()
    assert flows(client) == [False, True]
    client.take("connection.unblocked", 0)
    assert not is_warned(client)


def test_a_lane_s_queue_warns_nobody() -> None:
    with Node() as node:
        node.declare("work", **MARKS, **{"x-lane-priority": 5})
        client = publisher(node)
        fill(node)
        assert flows(client) == []


@pytest.mark.parametrize("end", ["deleted", "means", "unbound", "marks"])
def test_a_warning_ends_with_its_reason(end: str) -> None:
    with Node() as node:
        node.declare("work", **MARKS)
        node.bind("all", "work")
        client = open_channel(node, properties=JAVA)
        for _ in range(5):
            client.publish(1, b"", exchange="all", routing_key="any")
        node.settle()
        fill(node)
        assert flows(client) == [False]
        if end == "deleted":
            open_channel(node).call("queue.delete", 1, queue="work")
        elif end == "unbound":
            open_channel(node).call("queue.unbind", 1, queue="work", exchange="all", routing_key="")
        else:
            said = {"throttle": "confirms, park, pause"} if end == "means" else {"flow": "off"}
            node.policy("said", "^work$", said, "queues")
        node.settle()
        assert flows(client) == [True]


@pytest.mark.parametrize("end", ["channel.close", "connection"])
def test_who_leaves_is_forgotten(node: Node, end: str) -> None:
    client = publisher(node, blocked=True)
    fill(node)
    client.take("connection.blocked", 0)
    queue_gate = node.core(0).gates.queue_gates[node.queue("work").queue_id]
    assert queue_gate.warned
    if end == "connection":
        client.connection.lost()
    else:
        client.send("channel.close", 1)
        node.settle()
        client.take("connection.unblocked", 0)
    assert not queue_gate.warned
    purge(node)


def test_a_shard_s_death_while_warned(node: Node) -> None:
    """Queues that are not durable are empty then, and only the gauges say so."""
    client = publisher(node)
    fill(node)
    assert flows(client) == [False]
    node.kill_shard(0)
    node.start_shard(0)
    node.settle(2)
    assert flows(client) == [True]


def test_a_limit_over_several_queues_lets_go_whom_it_warned_though_nobody_waits() -> None:
    with Node() as node:
        node.policy("p", "^guest$", {"sum-stop-count": 20, "sum-resume-count": 10}, "users")
        node.declare("work")
        client = publisher(node)
        other = open_channel(node)
        publish(other, 16)
        other.call("tx.select", 1)
        publish(other, 1)
        other.send("tx.commit", 1)
        node.settle(1)
        other.call("channel.close", 1, code=200)
        assert is_warned(client) and not any(pool.waiting for pool in node.core(0).gates.pools.by_limit.values())
        purge(node)
        node.settle(1)
        assert not is_warned(client) and flows(client) == [False, True]
