"""Flow compliance: the clients that count as ignoring Channel.Flow, and the consequences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.flow_compliance import AFTER_ANSWER_COUNT, UNANSWERED_BYTES, UNANSWERED_SECONDS
from tests.raw import JAVA
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node

MARKS = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q", **MARKS)
        yield node


def reports(node: Node, count: int = 6) -> Client:
    """Return a client stopped by Channel.Flow after `count` publishes; by an early notice if all of them found room."""
    client = node.connect(properties=JAVA)
    client.call("channel.open", 1)
    publish(client, count)
    node.settle(1)
    assert client.take("channel.flow", 1).active is False
    return client


def publish(client: Client, count: int, size: int = 1) -> None:
    for _ in range(count):
        client.publish(1, bytes(size), routing_key="q")
    client.node.settle()


def ignored(node: Node) -> int:
    return node.core(0).holding.notifier.ignoring


def ignores(client: Client) -> bool:
    ignores = client.connection.notices.ignores_flow
    assert client.connection.services.holding.notifier.ignoring == ignores
    return ignores


def drain(node: Node) -> None:
    """Empty the queue through another connection."""
    consumer = node.connect()
    consumer.call("channel.open", 1)
    consumer.call("basic.consume", 1, queue="q", no_ack=True)
    node.settle(3)
    consumer.lose()
    node.settle()


def test_a_few_may_be_overtaken_by_the_answer(node: Node) -> None:
    client = reports(node)
    client.send("channel.flow-ok", 1, active=False)
    publish(client, AFTER_ANSWER_COUNT)
    assert not ignores(client)
    publish(client, 1)
    assert ignores(client)
    assert not client.socket.reads


@pytest.mark.parametrize("early", [False, True], ids=["held", "warned early"])
def test_who_ignores_flow_is_closed_where_that_is_asked_for(early: bool) -> None:
    """Publishes parked before the close stay, and enter the queue when there is room."""
    with Node(flow={"flow_ignored": "close"}) as node:
        node.declare("q", **MARKS)
        client = reports(node, 5 if early else 6)
        client.send("channel.flow-ok", 1, active=False)
        publish(client, 1)
        publish(client, AFTER_ANSWER_COUNT)
        closed = client.take("connection.close", 0)
        assert closed.code == 506 and "channel.flow" in closed.text
        client.send("connection.close-ok")
        node.settle()
        client.lose()
        assert ignored(node) == 0
        depth = node.state("q").contents.totals.published
        drain(node)
        assert node.state("q").contents.totals.published > depth and not any(
            orphan.inbox for orphan in node.core(0).orphans.channels
        )


@pytest.mark.parametrize("answer", ["channel.flow-ok", "channel.flow"])
def test_what_is_answered_late_is_the_answer_to_what_came_first(node: Node, answer: str) -> None:
    """A client stopped, released and stopped again before its first answer may publish until its third answer."""
    client = reports(node)
    drain(node)
    assert client.take("channel.flow", 1).active is True
    publish(client, 6)
    assert client.take("channel.flow", 1).active is False
    client.send(answer, 1, active=False)
    client.send("channel.flow-ok", 1, active=True)
    publish(client, 2 * AFTER_ANSWER_COUNT)
    assert not ignores(client)
    client.send(answer, 1, active=False)
    publish(client, AFTER_ANSWER_COUNT + 1)
    assert ignores(client)


def test_one_that_never_answers_is_judged_by_time(node: Node) -> None:
    client = reports(node)
    publish(client, 2 * AFTER_ANSWER_COUNT)
    node.now += UNANSWERED_SECONDS - 1
    publish(client, 1)
    assert not ignores(client)
    node.now += 2
    publish(client, 1)
    assert ignores(client)


def test_what_a_pause_has_kept_may_be_old(node: Node) -> None:
    client = reports(node)
    publish(client, 1, node.settings.flow.parking_bytes)
    assert not client.socket.reads
    node.now += 2 * UNANSWERED_SECONDS
    client.socket.drips = 1 << 20
    publish(client, 1)
    assert not ignores(client)


def test_one_that_never_answers_is_judged_by_what_comes() -> None:
    with Node(flow={"parking_bytes": 1 << 30}) as node:
        node.declare("q", **MARKS)
        client = reports(node)
        publish(client, UNANSWERED_BYTES // (1 << 20), 1 << 20)
        assert ignores(client)


def test_no_channel_flow_any_more_and_a_pause_at_once(node: Node) -> None:
    client = reports(node)
    client.send("channel.flow-ok", 1, active=False)
    publish(client, AFTER_ANSWER_COUNT + 1)
    drain(node)
    assert client.take("channel.flow", 1).active is True
    assert client.socket.reads
    publish(client, 8)
    assert client.connection.channels[1].held_by is not None
    assert not client.socket.reads
    assert "channel.flow" not in client.names(1)
    client.lose()
    assert not node.core(0).holding.notifier.ignoring
