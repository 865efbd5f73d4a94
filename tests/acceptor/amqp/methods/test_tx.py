"""Class tx: the modes that exclude each other, and commits to a full queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

FLOW = {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("a")
        node.declare("full", **FLOW)
        yield node


def transactional(node: Node) -> Client:
    """Return a client with a transactional channel."""
    client = open_channel(node)
    client.call("tx.select", 1)
    return client


def fill(node: Node) -> None:
    """Fill the queue from a channel that is not transactional."""
    client = open_channel(node)
    for _ in range(5):
        client.publish(1, b"x", routing_key="full")
    node.settle(1)


def depths(node: Node, *queues: str) -> list[int]:
    return [node.state(queue).depth for queue in queues]


@pytest.mark.parametrize(
    ("methods", "text", "ids"),
    [
        (["tx.commit"], "channel is not transactional", (90, 20)),
        (["tx.rollback"], "channel is not transactional", (90, 30)),
        (["tx.select", "confirm.select"], "cannot switch from tx to confirm mode", (85, 10)),
        (["confirm.select", "tx.select"], "cannot switch from confirm to tx mode", (90, 10)),
    ],
)
def test_refusals(node: Node, methods: list[str], text: str, ids: tuple[int, int]) -> None:
    client = open_channel(node)
    for method in methods:
        client.send(method, 1)
    node.settle()
    closed: Any = client.take("channel.close", 1)
    assert (closed.code, closed.text) == (406, f"PRECONDITION_FAILED - {text}")
    assert (closed.class_id, closed.method_id) == ids


def test_selecting_twice_keeps_the_open_transaction(node: Node) -> None:
    client = transactional(node)
    client.publish(1, b"x", routing_key="a")
    client.call("tx.select", 1)
    client.call("tx.commit", 1)
    assert depths(node, "a") == [1]


def test_the_next_transaction_begins_with_the_commit(node: Node) -> None:
    """Publishes behind a commit that waits for its answer are not part of that commit."""
    client = transactional(node)
    client.publish(1, b"1", routing_key="a")
    client.send("tx.commit", 1)
    client.publish(1, b"2", routing_key="a")
    client.send("tx.rollback", 1)
    node.settle()
    assert client.names(1) == ["tx.commit-ok", "tx.rollback-ok"]
    assert depths(node, "a") == [1]
    client.call("tx.commit", 1)
    assert depths(node, "a") == [1]


@pytest.mark.parametrize("by", ["setting", "policy", "queue"])
def test_a_commit_is_rolled_back_instead_of_waiting_where_that_is_chosen(by: str) -> None:
    with Node(flow={"tx_when_full": "reject" if by == "setting" else "wait"}) as node:
        node.declare("full", **FLOW, **({"x-tx-when-full": "reject"} if by == "queue" else {}))
        node.declare("a")
        if by == "policy":
            node.policy("p", "^full$", {"tx-when-full": "reject"})
        fill(node)
        client = transactional(node)
        for queue in ("a", "full"):
            client.publish(1, b"y", routing_key=queue)
        client.send("tx.commit", 1)
        node.settle(1)
        closed = client.take("channel.close", 1)
        assert (closed.code, closed.class_id, closed.method_id) == (406, 90, 20)
        assert "rolled back, no room: queue 'full' in vhost '/': 5 of 4 messages" in closed.text
        assert depths(node, "a", "full") == [0, 5]


def test_a_commit_waits_for_room_by_default(node: Node) -> None:
    fill(node)
    client = transactional(node)
    for queue in ("a", "full"):
        client.publish(1, b"y", routing_key=queue)
    client.send("tx.commit", 1)
    node.settle(1)
    assert "tx.commit-ok" not in client.names(1) and depths(node, "a") == [0]
    open_channel(node).call("queue.purge", 1, queue="full")
    node.settle(1)
    client.take("tx.commit-ok", 1)
    assert depths(node, "a", "full") == [1, 1]
