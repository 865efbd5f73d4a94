"""The connections that an acceptor lists, and those that an operator closes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.questions import questions
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def listed(node: Node, question: str = "connections") -> list[dict[str, object]]:
    answer, _ = questions(node.core(0))[question]
    found: list[dict[str, object]] = answer()
    return found


def close(node: Node, client: Client, reason: str) -> bool:
    answer, _ = questions(node.core(0))["close"]
    closed: bool = answer(connection=client.connection.id, reason=reason)
    node.settle()
    return closed


def test_what_a_connection_has_is_listed(node: Node) -> None:
    client = node.connect(heartbeat=7, properties={"product": "app"})
    client.call("channel.open", 1)
    client.call("channel.open", 2)
    client.publish(1, b"m", routing_key="q")
    client.call("basic.consume", 1, queue="q")
    node.now += 2.5
    node.recheck(0)
    (found,) = listed(node)
    assert found == {
        **client.connection.whose(), "open_seconds": 2.5, "heartbeat": 7, "channels": 2, "consumers": 1, "unacked": 1,
        "held_channels": 0, "parked_bytes": 0, "read": True, "tls": "", "cipher": "", "certificate": "",
        "received_bytes": 8 + client.connection.scanner.scanned, "reads": client.connection.scanner.scans,
        "sent_bytes": client.connection.output.popped, "writes": client.connection.output.pops,
    }  # fmt: skip
    assert (found["user"], found["vhost"], found["client"]) == ("guest", "/", "app")


def test_consumers_are_listed_with_their_queues_and_terms(node: Node) -> None:
    client = node.connect()
    client.call("channel.open", 3)
    client.call("basic.qos", 3, prefetch_count=7)
    client.call("basic.consume", 3, queue="q", consumer_tag="one", arguments={"x-priority": -2})
    client.call("basic.consume", 3, queue="q", consumer_tag="two", no_ack=True)
    node.settle()
    one, two = listed(node, "all_consumers")
    assert one == {
        **client.connection.whose(), "channel": 3, "tag": "one", "queue": "q", "shard": 0, "no_ack": False,
        "prefetch": 7, "priority": -2, "exclusive": False, "elected": False,
    }  # fmt: skip
    assert (two["tag"], two["no_ack"]) == ("two", True)
    client.call("basic.cancel", 3, consumer_tag="one")
    assert [each["tag"] for each in listed(node, "all_consumers")] == ["two"]


def test_channels_are_listed_with_the_counts_of_their_messages(node: Node) -> None:
    client = open_channel(node)
    client.publish(1, b"m", routing_key="q")
    client.publish(1, b"m", routing_key="nowhere")
    node.settle()
    (found,) = listed(node, "channels")
    counts = found["counts"]
    assert isinstance(counts, dict) and (counts["published"], counts["dropped"], counts["acked"]) == (1, 1, 0)
    client.call("channel.close", 1)
    client.call("channel.open", 1)
    (again,) = listed(node, "channels")
    assert again["group"] != found["group"] and not any(again["counts"].values())  # type: ignore[attr-defined]


def test_sums_go_on_when_channels_and_connections_end(node: Node) -> None:
    client, other = open_channel(node), open_channel(node)
    for each in client, other:
        each.publish(1, b"m", routing_key="q")
    other.call("queue.declare", 1, queue="q")
    client.call("channel.close", 1)
    client.call("connection.close")
    answer, _ = questions(node.core(0))["sums"]
    found = answer()
    assert (found["published"], found["queues_declared"]) == (2, 1)
    assert (found["channels_opened"], found["channels_closed"]) == (2, 1)
    assert (found["connections_opened"], found["connections_closed"]) == (2, 0)
    client.lose()
    other.lose()
    ended = answer()
    assert ended["published"] == 2
    assert (ended["channels_closed"], ended["connections_closed"]) == (2, 2)


def test_a_held_producer_is_listed_as_such(node: Node) -> None:
    node.declare("full", **{"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 0})
    client = open_channel(node)
    for _ in range(3):
        client.publish(1, b"m", routing_key="full")
        node.settle(1)
    (found,) = listed(node)
    assert found["held_channels"] == 1 and found["parked_bytes"] == client.connection.kept.parked > 0


def test_one_that_is_closed_is_told_why_and_listed_no_longer(node: Node) -> None:
    client, other = open_channel(node), open_channel(node)
    assert close(node, client, "a new version comes")
    closed = client.take("connection.close")
    assert (closed.code, closed.text) == (320, "CONNECTION_FORCED - a new version comes")
    assert [each["connection"] for each in listed(node)] == [other.connection.id]
    assert not close(node, client, "twice")


def test_who_is_not_connected_yet_is_not_listed(node: Node) -> None:
    node.visit()
    assert listed(node) == []


def test_a_long_reason_is_cut(node: Node) -> None:
    client = open_channel(node)
    assert close(node, client, "why " * 100)
    assert client.take("connection.close").text.startswith("CONNECTION_FORCED - why why")


def test_terms_are_those_of_the_connections_asked_about(node: Node) -> None:
    client, other = node.connect(properties={"product": "app", "raw": b"\xff"}), node.connect()
    answer, _ = questions(node.core(0))["terms"]
    found = answer(connections=[client.connection.id, "0.1.99", 7])
    assert found.keys() == {client.connection.id}
    terms = found[client.connection.id]
    assert (terms["frame_max"], terms["channel_max"]) == (client.connection.frame_max, client.connection.channel_max)
    properties = terms["client_properties"]
    assert (properties["product"], properties["raw"]) == ("app", "\udcff")
    assert properties["capabilities"]["basic.nack"] is True
    assert other.connection.id in answer(connections=[other.connection.id])
