"""A killed acceptor and its successor: what both have in flight to a shard that gets no processor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.bus.link_stage import LinkStage
from tests.simulator.joined.client import Client
from tests.simulator.joined.node import Node, open_channel

STOP = 160


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(acceptors=2, flow={"parking_bytes": 1 << 26}) as node:
        node.show_processes()
        node.declare("q", **{"x-flow-stop-count": STOP, "x-flow-resume-count": 10})
        yield node


def send(node: Node, client: Client, count: int, **options: int) -> None:
    """Publish `count` messages; as many as there is room for are in flight to the shard afterwards."""
    for _ in range(count):
        client.publish(1, b"m", routing_key="q", **options)
    client.read()
    node.finish(client.acceptor)


def replace(node: Node) -> Client:
    """Kill the acceptor, with turns in the shard's socket that the shard has not received; start its successor, which
    the shard meets before anything else happens.
    """
    node.kill_acceptor(0)
    node.start_acceptor(0)
    client = node.visit(0)
    client.log_in()
    client.send("channel.open", 1)
    client.read()
    for _ in range(2):
        node.finish(0)
        node.send_up(0, 0)
        node.finish_shard(0)
        node.send_down(0, 0)
    assert node.core(0).links[0].stage is LinkStage.UP
    return client


def fill(node: Node, client: Client) -> None:
    """Publish from another acceptor until the queue is saturated."""
    for _ in range(100):
        send(node, client, 20)
        node.send_up(1, 0)
        node.finish_shard(0)
        node.send_down(0, 1)
    assert node.state("q").saturation.saturated


def end(node: Node) -> None:
    """Deliver everything in flight, that of the dead acceptor first."""
    while node.send_up(0, 0, last=True) or node.send_up(0, 0):
        node.finish_shard(0)
    node.settle()


def test_what_a_dead_acceptor_had_sent_is_in_no_share_of_its_successors(node: Node) -> None:
    client, other = open_channel(node), open_channel(node, acceptor=1)
    for _ in range(3):
        send(node, client, 300)
        client = replace(node)
    send(node, client, 300)
    assert len(node.last_words[0, 0]) >= 3
    fill(node, other)
    end(node)
    state = node.state("q")
    assert STOP < state.depth <= STOP + state.limits.marks.overshoot_bound(2)[0]


def test_what_a_dead_acceptor_claimed_of_a_sum_is_free_once_it_is_settled(node: Node) -> None:
    node.policy("p", "^guest$", {"sum-stop-count": 100, "sum-resume-count": 50}, "users")
    node.declare("another")
    client, other = open_channel(node), open_channel(node, acceptor=1)
    for _ in range(300):
        client.publish(1, b"m", routing_key="another")
    client.read()
    node.finish(0)
    (pool,) = node.core(0).gates.pools.by_limit.values()
    assert pool.in_flight == 50
    node.kill_acceptor(0)
    send(node, other, 300)
    node.send_up(1, 0)
    node.finish_shard(0)
    node.send_down(0, 1)
    assert node.gauges.claim(pool.claim.place, 1, 0, 0, 0)[0] >= 50, "it may still arrive"
    node.start_acceptor(0)
    end(node)
    node.settle(rechecks=3)
    assert node.state("q").depth + node.state("another").depth == 101
