"""The counts of a channel's messages, and its publishing rate over about the last ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acceptor.clients.traffic import COUNTS, LEAST, RECENT_SECONDS, Traffic
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel


def test_a_steady_rate_is_found_and_ends_at_0() -> None:
    traffic = Traffic()
    for _ in range(100):
        traffic.published += 7
        traffic.tick()
    assert traffic.rate() == pytest.approx(7, rel=0.01)
    for _ in range(100):
        traffic.tick()
    assert traffic.rate() == 0


def test_publishes_of_the_present_second_count_at_once() -> None:
    traffic = Traffic()
    traffic.published += 20
    assert traffic.rate() == 20 / RECENT_SECONDS
    traffic.tick()
    assert traffic.rate() == 20 / RECENT_SECONDS


def test_a_count_decays_by_a_tenth_each_second_until_it_is_least() -> None:
    traffic = Traffic()
    traffic.published = 1
    traffic.tick()
    seen = []
    while traffic.recent:
        seen.append(traffic.recent)
        traffic.tick()
    assert seen == pytest.approx([0.9**second for second in range(len(seen))])
    assert seen[-1] >= LEAST > seen[-1] * 0.9


def test_the_counts_of_channels_are_added() -> None:
    some, others = Traffic(), Traffic()
    for number, name in enumerate(COUNTS):
        setattr(some, name, number)
        setattr(others, name, 100)
    some.add(others)
    assert some.counts() == {name: 100 + number for number, name in enumerate(COUNTS)}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        node.declare("q")
        yield node


def counted(client: Client) -> dict[str, int]:
    """Return the counts of the first channel of a client that are not 0."""
    return {name: count for name, count in client.connection.channels[1].counted().counts().items() if count}


def publish(client: Client, count: int, key: str = "q", **options: bool) -> None:
    for _ in range(count):
        client.publish(1, b"m", routing_key=key, **options)
    client.node.settle()


def test_publishes_are_counted_by_where_they_went(node: Node) -> None:
    client = open_channel(node)
    client.call("confirm.select", 1)
    publish(client, 3)
    publish(client, 2, "nowhere")
    publish(client, 1, "nowhere", mandatory=True)
    assert counted(client) == {"published": 3, "dropped": 2, "returned": 1, "confirmed": 6}


def test_deliveries_are_counted_by_whether_they_are_to_be_acked(node: Node) -> None:
    client = open_channel(node)
    client.call("basic.consume", 1, queue="q", consumer_tag="c")
    publish(client, 5)
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    client.send("basic.reject", 1, delivery_tag=3, requeue=False)
    client.send("basic.nack", 1, delivery_tag=4, multiple=False, requeue=True)
    node.settle()
    assert counted(client) == {"published": 5, "delivered": 6, "redelivered": 1, "acked": 2}
    client.call("basic.cancel", 1, consumer_tag="c")
    client.call("basic.consume", 1, queue="q", no_ack=True)
    publish(client, 1)
    assert counted(client)["delivered_no_ack"] == 1


def test_gets_are_counted_the_same_way(node: Node) -> None:
    client, other = open_channel(node), open_channel(node)
    client.send("basic.get", 1, queue="q", no_ack=False)
    publish(client, 2)
    client.send("basic.get", 1, queue="q", no_ack=True)
    other.send("basic.get", 1, queue="q", no_ack=False)
    node.settle()
    other.lose()
    node.settle()
    client.send("basic.get", 1, queue="q", no_ack=False)
    node.settle()
    assert counted(client) == {"published": 2, "got_empty": 1, "got_no_ack": 1, "got": 1, "redelivered": 1}


def test_acks_of_a_transaction_are_counted_until_it_is_rolled_back(node: Node) -> None:
    client = open_channel(node)
    publish(client, 3)
    client.call("basic.consume", 1, queue="q")
    client.call("tx.select", 1)
    client.send("basic.ack", 1, delivery_tag=2, multiple=True)
    node.settle()
    assert counted(client)["acked"] == 2
    client.call("tx.rollback", 1)
    assert "acked" not in counted(client)
    client.send("basic.ack", 1, delivery_tag=3, multiple=True)
    client.call("tx.commit", 1)
    assert counted(client)["acked"] == 3
