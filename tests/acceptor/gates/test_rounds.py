"""Rounds of a full queue's room: shares go by weight, not by how much a producer has in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.acceptor.gates.test_fair import user
from tests.outcomes import jain
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

pytestmark = pytest.mark.long

STOP, RESUME = 1024, 512
MILLISECOND = 0.001


class Windowed:
    """A producer that keeps `window` publishes unconfirmed on each of its channels."""

    def __init__(self, client: Client, window: int, channels: int = 1) -> None:
        self.client = client
        self.window = window
        self.sent = dict.fromkeys(range(1, channels + 1), 0)
        self.confirmed = dict(self.sent)
        for channel in self.sent:
            if channel > 1:
                client.send("channel.open", channel)
            client.send("confirm.select", channel)

    def publish(self) -> None:
        """Publish as much as the confirms received so far allow."""
        for channel, sent in self.sent.items():
            for event in self.client.events[channel]:
                if event.name == "basic.ack":
                    self.confirmed[channel] = max(self.confirmed[channel], event.delivery_tag)
            self.client.events[channel].clear()
            for _ in range(self.window - (sent - self.confirmed[channel])):
                self.client.publish(channel, b"", routing_key="q", exchange="x")
                self.sent[channel] += 1

    @property
    def got(self) -> int:
        return sum(self.confirmed.values())


def shares(node: Node, producers: Sequence[Windowed], rounds: int, consumed: int = 100) -> list[int]:
    """Return how many publishes of each producer were confirmed while `consumed` messages left in each round."""
    reader = open_channel(node)
    before: list[int] = []
    for number in range(2 * rounds):
        if number == rounds:
            before = [producer.got for producer in producers]
        for _ in range(consumed):
            reader.send("basic.get", 1, queue="q", no_ack=True)
        for _ in range(4):
            node.settle()
            node.now += MILLISECOND
            for acceptor in range(len(node.acceptors)):
                node.meter(acceptor)
            for producer in producers:
                producer.publish()
        reader.events[1].clear()
        if number % 10 == 0:
            for acceptor in range(len(node.acceptors)):
                node.recheck(acceptor)
    return [producer.got - was for producer, was in zip(producers, before, strict=True)]


@pytest.fixture(params=[1, 2])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with Node(acceptors=request.param) as node:
        node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": RESUME})
        node.bind("x", "q")
        yield node


def connect(node: Node, number: int) -> Client:
    return open_channel(node, acceptor=number % len(node.acceptors))


def test_small_windows_get_as_much_as_large_ones(node: Node) -> None:
    windows = (20, 50, 100, 500, 1000, 2000)
    got = shares(node, [Windowed(connect(node, at), window) for at, window in enumerate(windows)], 80)
    assert jain(got) > 0.95


def test_many_channels_of_a_connection_get_as_much_as_one(node: Node) -> None:
    crowd = Windowed(connect(node, 0), 100, channels=20)
    got = shares(node, [crowd, *(Windowed(connect(node, at), 100) for at in range(1, 6))], 80)
    assert jain(got) > 0.95


def test_a_weight_counts_though_windows_are_equal(node: Node) -> None:
    node.policy("w", "^ann$", {"weight": 5}, "users")
    ann = user(node, "ann")
    clients = [connect(node, at) for at in range(5)]
    clients[0].connection.channels[1].access = ann
    got = shares(node, [Windowed(client, 100) for client in clients], 80)
    assert jain([got[0] / 5, *got[1:]]) > 0.95


def test_channels_have_shares_of_their_own_where_a_policy_says_so(node: Node) -> None:
    node.policy("s", "", {"fair-by": "channel"}, "queues")
    crowd = Windowed(connect(node, 0), 100, channels=4)
    got = shares(node, [crowd, *(Windowed(connect(node, at), 100) for at in range(1, 5))], 80)
    assert jain([got[0] / 4, *got[1:]]) > 0.95


def test_what_one_leaves_goes_to_the_others(node: Node) -> None:
    """A producer that has gone quiet is not waited for, and consumers always have messages."""
    quiet, busy = Windowed(connect(node, 0), 20), Windowed(connect(node, 1), 2000)
    shares(node, [quiet, busy], 20)
    got = shares(node, [busy], 40)
    assert got[0] > 0.9 * 40 * 100
    assert node.state("q").depth > RESUME // 4
